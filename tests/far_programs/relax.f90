! Jacobi steps on a grid. All its memory, 162 MiB, is in static arrays.
program relax
  implicit none
  integer, parameter :: n = 192, steps = 2
  real(8) :: u, f, r
  common /grid/ u(n, n, n), f(n, n, n), r(n, n, n)
  integer :: i, j, k, step
  do k = 1, n
    do j = 1, n
      do i = 1, n
        f(i, j, k) = sin(0.1d0 * i) * cos(0.2d0 * j) + 0.01d0 * k
      end do
    end do
  end do
  do step = 1, steps
    do k = 2, n - 1
      do j = 2, n - 1
        do i = 2, n - 1
          r(i, j, k) = f(i, j, k) + (u(i - 1, j, k) + u(i + 1, j, k) + u(i, j - 1, k) + u(i, j + 1, k) &
                       + u(i, j, k - 1) + u(i, j, k + 1)) / 6 - u(i, j, k)
        end do
      end do
    end do
    u = u + 0.8d0 * r
  end do
  print '(z16.16)', transfer(sum(u * f), 0_8)
end program

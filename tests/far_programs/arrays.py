"""numpy: sorts, adds up and multiplies arrays of 190 MiB in all."""
import numpy

dice = numpy.random.Generator(numpy.random.PCG64(1))
matrix = dice.random((1000, 1000))
numbers = dice.integers(0, 1 << 40, 8_000_000)
numbers.sort()
print(int(numbers[::1000].sum()), int((numbers[1:] - numbers[:-1]).max()))
print(int(numpy.cumsum(numbers)[-1]))
print((matrix @ matrix.T).sum().hex())

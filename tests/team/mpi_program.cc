// mpi_program.cc — a program that is linked with MPI, and runs.
extern "C" int MPI_Initialized(int* flag);

int main() {
  int flag = 1;
  return MPI_Initialized(&flag) + flag;
}

// stand_in_mpi.cc — has the name of an MPI library, and a function of one.
extern "C" int MPI_Initialized(int* flag);
extern "C" int MPI_Initialized(int* flag) {
  *flag = 0;
  return 0;
}

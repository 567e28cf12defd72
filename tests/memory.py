"""The peak of the memory of a process, for programs that tests run in a process of their own."""

PEAK = '''
import resource, sys

def peak():
    """In MB. On Linux, getrusage would count the memory of the parent before exec as well."""
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 2**10
'''

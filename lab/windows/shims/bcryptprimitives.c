// bcryptprimitives.dll: random numbers for Go programs, which request them at their start. Wine 8 has no such file.
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length); // RtlGenRandom

// windows_exporter connects to the service manager twice at the same time: as a service, and for its metrics of services. If these are the first
// two connections of a process, Wine's server treats them as two clients, whose handles are separate: the service cannot report that it runs, and
// its start fails with error 1053. So each process connects once before. Windows does not need this.
static void connect_to_service_manager(void) {
    static const WCHAR program[] = L"\\windows_exporter.exe";
    static LONG asked;
    WCHAR path[MAX_PATH];
    DWORD length;

    if (InterlockedExchange(&asked, 1)) return;
    length = GetModuleFileNameW(NULL, path, MAX_PATH);
    if (length < ARRAYSIZE(program) || lstrcmpiW(path + length - (ARRAYSIZE(program) - 1), program)) return;
    OpenSCManagerW(NULL, NULL, SC_MANAGER_CONNECT); // stays open
}

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length) {
    connect_to_service_manager();
    while (length > 0) {
        ULONG part = length > 0x10000000 ? 0x10000000 : (ULONG)length;
        if (!SystemFunction036(buffer, part)) return FALSE;
        buffer += part;
        length -= part;
    }
    return TRUE;
}

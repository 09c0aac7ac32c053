// pause.exe: the first process of every pod. It waits for its stop signal.
#include <windows.h>

static BOOL WINAPI stop(DWORD event) {
    ExitProcess(0);
    return TRUE;
}

int main(void) {
    SetConsoleCtrlHandler(stop, TRUE);
    Sleep(INFINITE);
    return 0;
}

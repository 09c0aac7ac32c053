// bindfltapi.dll: the bind filter, which makes a folder available at a second path. Here its calls have no effect.
#include <windows.h>

#define EXPORT __declspec(dllexport) HRESULT WINAPI

EXPORT BfSetupFilter(HANDLE job, ULONG flags, LPCWSTR root, LPCWSTR target, LPCWSTR *exceptions, ULONG count) { return S_OK; }

EXPORT BfRemoveMapping(HANDLE job, LPCWSTR root) { return S_OK; }

EXPORT BfGetMappings(ULONG flags, HANDLE job, LPCWSTR root, PSID sid, PULONG size, PVOID buffer) {
    if (size) *size = 0;
    return HRESULT_FROM_WIN32(ERROR_NOT_FOUND);
}

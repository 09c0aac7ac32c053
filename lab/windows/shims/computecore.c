// computecore.dll: the newer API of Windows' container service, which windows_exporter uses. It calls vmcompute.dll (package hostcompute). Each
// operation is complete before the caller waits for it.
#include <windows.h>
#include <objbase.h>
#include <stdlib.h>

#define EXPORT __declspec(dllexport)

typedef struct {
    HRESULT result;
    WCHAR *document;
} OPERATION;

static FARPROC answers(const char *name) { return GetProcAddress(LoadLibraryW(L"vmcompute.dll"), name); }

EXPORT OPERATION *WINAPI HcsCreateOperation(const void *context, void *callback) { return calloc(1, sizeof(OPERATION)); }

EXPORT void WINAPI HcsCloseOperation(OPERATION *operation) {
    CoTaskMemFree(operation->document);
    free(operation);
}

// The caller owns the document afterwards.
EXPORT HRESULT WINAPI HcsWaitForOperationResult(OPERATION *operation, DWORD milliseconds, WCHAR **document) {
    if (document != NULL) {
        *document = operation->document;
        operation->document = NULL;
    }
    return operation->result;
}

EXPORT HRESULT WINAPI HcsEnumerateComputeSystems(const WCHAR *query, OPERATION *operation) {
    HRESULT(WINAPI * enumerate)(const WCHAR *, WCHAR **, WCHAR **) = (void *)answers("HcsEnumerateComputeSystems");
    operation->result = enumerate(query, &operation->document, NULL);
    return S_OK;
}

EXPORT HRESULT WINAPI HcsOpenComputeSystem(const WCHAR *id, DWORD access, HANDLE *system) {
    HRESULT(WINAPI * open)(const WCHAR *, HANDLE *, WCHAR **) = (void *)answers("HcsOpenComputeSystem");
    return open(id, system, NULL);
}

EXPORT HRESULT WINAPI HcsGetComputeSystemProperties(HANDLE system, OPERATION *operation, const WCHAR *query) {
    HRESULT(WINAPI * properties)(HANDLE, const WCHAR *, WCHAR **, WCHAR **) = (void *)answers("HcsGetComputeSystemProperties");
    operation->result = properties(system, query, &operation->document, NULL);
    return S_OK;
}

EXPORT void WINAPI HcsCloseComputeSystem(HANDLE system) {
    HRESULT(WINAPI * close)(HANDLE) = (void *)answers("HcsCloseComputeSystem");
    close(system);
}

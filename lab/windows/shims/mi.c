// mi.dll: the client of Windows Management Instrumentation, with which windows_exporter opens a session at its start. All queries return no
// results. Unused calls are not supported.
#include <windows.h>

#define OK 0
#define NOT_SUPPORTED 7

// The handle of an application, a session, an operation or options, with the table of its functions.
typedef struct {
    ULONGLONG reserved1;
    ptrdiff_t reserved2;
    const void *const *functions;
} OBJECT;

static int ok(void) { return OK; }
static int none(void) { return NOT_SUPPORTED; }

static int no_instance(OBJECT *operation, const void **instance, unsigned char *more, int *result, const WCHAR **message, const void **details) {
    *instance = NULL;
    *more = FALSE;
    *result = OK;
    return OK;
}

static const void *const operation_functions[] = {ok, ok, none, no_instance, none, none};

static int query(OBJECT *session, DWORD flags, OBJECT *options, const WCHAR *space, const WCHAR *dialect, const WCHAR *text, void *callbacks, OBJECT *operation) {
    operation->functions = operation_functions;
    return OK;
}

// Close is the first function, QueryInstances the ninth of fifteen.
static const void *const session_functions[] = {ok, none, none, none, none, none, none, none, query, none, none, none, none, none, none};

// Delete, SetString, SetNumber, and later SetInterval, whose position differs between both kinds of options.
static const void *const destination_functions[] = {ok, ok, ok, none, none, none, none, none, none, none, none, none, none, ok, none};
static const void *const option_functions[] = {ok, ok, ok, none, none, none, none, none, none, none, none, ok, none};

static int new_session(OBJECT *application, const WCHAR *protocol, const WCHAR *destination, OBJECT *options, void *callbacks, void **error, OBJECT *session) {
    session->functions = session_functions;
    return OK;
}

static int new_destination(OBJECT *application, OBJECT *options) {
    options->functions = destination_functions;
    return OK;
}

static int new_options(OBJECT *application, unsigned char must_understand, OBJECT *options) {
    options->functions = option_functions;
    return OK;
}

// Close, NewSession, and later NewDestinationOptions and NewOperationOptions, of eleven.
static const void *const application_functions[] = {ok, new_session, none, none, new_destination, new_options, none, none, none, none, none};

__declspec(dllexport) int WINAPI MI_Application_InitializeV1(DWORD flags, const WCHAR *id, void **error, OBJECT *application) {
    application->functions = application_functions;
    return OK;
}

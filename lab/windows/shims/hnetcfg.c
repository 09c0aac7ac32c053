// hnetcfg.dll: firewall rules, of which Wine only has the COM objects. Here rules are registry keys
// HKLM\Software\WMCOLab\Firewall\<number> with a value for each property. Objects support only calls by name (IDispatch), and have the class
// IDs of Wine's own DLL. The rules have no effect on connections.
#define COBJMACROS
#include <initguid.h>
#include <windows.h>
#include <netfw.h>
#include <stdlib.h>
#include <wchar.h>

#define RULES L"Software\\WMCOLab\\Firewall"

typedef enum { FACTORY, POLICY, RULE_LIST, RULE, ENUMERATION } Kind;

// The properties of a rule. Numbers are also stored as text.
static const struct { const WCHAR *name; VARTYPE type; const WCHAR *initial; } properties[] = {
    {L"Name", VT_BSTR, L""}, {L"Description", VT_BSTR, L""}, {L"ApplicationName", VT_BSTR, L""}, {L"ServiceName", VT_BSTR, L""},
    {L"Protocol", VT_I4, L"256"}, {L"LocalPorts", VT_BSTR, L""}, {L"RemotePorts", VT_BSTR, L""}, {L"LocalAddresses", VT_BSTR, L"*"},
    {L"RemoteAddresses", VT_BSTR, L"*"}, {L"Direction", VT_I4, L"1"}, {L"InterfaceTypes", VT_BSTR, L"All"}, {L"Enabled", VT_BOOL, L"0"},
    {L"Grouping", VT_BSTR, L""}, {L"Profiles", VT_I4, L"2147483647"}, {L"Action", VT_I4, L"1"}, {L"Interfaces", VT_EMPTY, L""},
    {L"EdgeTraversal", VT_BOOL, L"0"},
};
enum { COUNT = sizeof(properties) / sizeof(properties[0]), NAME = 0, PROTOCOL = 4, LOCAL_PORTS = 5, REMOTE_PORTS = 6 };
enum { METHOD_RULES = 100, METHOD_STATE, METHOD_ADD, METHOD_REMOVE, METHOD_COUNT };

typedef struct Object {
    IUnknownVtbl *table; // of IDispatch, IClassFactory or IEnumVARIANT, which start with that of IUnknown
    LONG references;
    Kind kind;           // for a factory, makes is the kind of objects that it creates
    Kind makes;
    DWORD number;        // number of a rule in the registry, or 0 if it is not there. For an enumeration, its position
    WCHAR *values[COUNT];
} Object;

static HRESULT make(Kind kind, Object **made);

static void rule_key(DWORD number, WCHAR key[128]) { swprintf(key, 128, RULES L"\\%08u", number); }

static WCHAR *copy(const WCHAR *text) {
    WCHAR *all = malloc((wcslen(text) + 1) * sizeof(WCHAR));
    return wcscpy(all, text);
}

static BOOL load(Object *rule) {
    WCHAR key[128], value[4096];
    rule_key(rule->number, key);
    for (int i = 0; i < COUNT; i++) {
        DWORD size = sizeof(value);
        LSTATUS failed = RegGetValueW(HKEY_LOCAL_MACHINE, key, properties[i].name, RRF_RT_REG_SZ, NULL, value, &size);
        if (failed && i == NAME) return FALSE;
        free(rule->values[i]);
        rule->values[i] = copy(failed ? properties[i].initial : value); // rules of earlier versions of the lab have fewer properties
    }
    return TRUE;
}

static HRESULT store(Object *rule) {
    WCHAR key[128];
    rule_key(rule->number, key);
    for (int i = 0; i < COUNT; i++) {
        const WCHAR *value = rule->values[i];
        if (RegSetKeyValueW(HKEY_LOCAL_MACHINE, key, properties[i].name, REG_SZ, value, (wcslen(value) + 1) * sizeof(WCHAR))) return E_ACCESSDENIED;
    }
    return S_OK;
}

// next returns the number of the next rule, or 0 if there is none.
static DWORD next(DWORD after) {
    HKEY key;
    DWORD found = 0;
    WCHAR name[16];
    if (RegOpenKeyExW(HKEY_LOCAL_MACHINE, RULES, 0, KEY_READ, &key)) return 0;
    for (DWORD i = 0, size = 16; RegEnumKeyExW(key, i, name, &size, NULL, NULL, NULL, NULL) == ERROR_SUCCESS; i++, size = 16) {
        DWORD number = wcstoul(name, NULL, 10);
        if (number > after && (!found || number < found)) found = number;
    }
    RegCloseKey(key);
    return found;
}

static HRESULT query(Object *o, REFIID id, void **out) {
    BOOL isOurs = IsEqualGUID(id, &IID_IUnknown) ||
        IsEqualGUID(id, o->kind == FACTORY ? &IID_IClassFactory : o->kind == ENUMERATION ? &IID_IEnumVARIANT : &IID_IDispatch);
    *out = isOurs ? o : NULL;
    if (isOurs) InterlockedIncrement(&o->references);
    return isOurs ? S_OK : E_NOINTERFACE;
}
static HRESULT WINAPI QueryInterface(IUnknown *o, REFIID id, void **out) { return query((Object *)o, id, out); }
static ULONG WINAPI AddRef(IUnknown *o) { return InterlockedIncrement(&((Object *)o)->references); }
static ULONG WINAPI Release(IUnknown *unknown) {
    Object *o = (Object *)unknown;
    ULONG left = InterlockedDecrement(&o->references);
    if (left) return left;
    for (int i = 0; i < COUNT; i++) free(o->values[i]);
    free(o);
    return 0;
}

static HRESULT WINAPI GetTypeInfoCount(IDispatch *o, UINT *count) { *count = 0; return S_OK; }
static HRESULT WINAPI GetTypeInfo(IDispatch *o, UINT i, LCID l, ITypeInfo **info) { return E_NOTIMPL; }

static HRESULT WINAPI GetIDsOfNames(IDispatch *dispatch, REFIID id, LPOLESTR *names, UINT count, LCID locale, DISPID *ids) {
    Object *o = (Object *)dispatch;
    static const struct { Kind kind; const WCHAR *name; DISPID id; } methods[] = {
        {POLICY, L"Rules", METHOD_RULES}, {POLICY, L"LocalPolicyModifyState", METHOD_STATE}, {RULE_LIST, L"Add", METHOD_ADD},
        {RULE_LIST, L"Remove", METHOD_REMOVE}, {RULE_LIST, L"Count", METHOD_COUNT}, {RULE_LIST, L"_NewEnum", DISPID_NEWENUM},
    };
    if (count != 1) return E_INVALIDARG;
    for (int i = 0; i < COUNT && o->kind == RULE; i++)
        if (!_wcsicmp(names[0], properties[i].name)) { *ids = 1 + i; return S_OK; }
    for (unsigned i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (o->kind == methods[i].kind && !_wcsicmp(names[0], methods[i].name)) { *ids = methods[i].id; return S_OK; }
    return DISP_E_UNKNOWNNAME;
}

static HRESULT give(Object *o, VARTYPE type, VARIANT *result) {
    V_VT(result) = type;
    V_UNKNOWN(result) = (IUnknown *)o;
    return S_OK;
}

static HRESULT get_property(Object *rule, int i, VARIANT *result) {
    VARIANT text;
    if (rule->number && !load(rule)) return HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND);
    V_VT(result) = VT_EMPTY;
    if (properties[i].type == VT_EMPTY) return S_OK;
    V_VT(&text) = VT_BSTR;
    V_BSTR(&text) = *rule->values[i] ? SysAllocString(rule->values[i]) : NULL;
    if (properties[i].type == VT_BSTR) { *result = text; return S_OK; }
    HRESULT failed = VariantChangeType(result, &text, 0, VT_I4);
    VariantClear(&text);
    if (!failed && properties[i].type == VT_BOOL) { BOOL is = V_I4(result) != 0; V_VT(result) = VT_BOOL; V_BOOL(result) = is ? VARIANT_TRUE : VARIANT_FALSE; }
    return failed;
}

// put_property sets a property. It changes a rule that is already in the firewall immediately. Ports need a protocol with ports.
static HRESULT put_property(Object *rule, int i, VARIANT *value) {
    VARIANT text;
    WCHAR number[16];
    int protocol = _wtoi(rule->values[PROTOCOL]);
    if ((i == LOCAL_PORTS || i == REMOTE_PORTS) && protocol != 6 && protocol != 17) return E_INVALIDARG;
    VariantInit(&text);
    if (rule->number && !load(rule)) return HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND);
    if (properties[i].type == VT_BSTR) {
        if (V_VT(value) != VT_BSTR) return DISP_E_TYPEMISMATCH;
        if (i == NAME && V_BSTR(value) && wcschr(V_BSTR(value), L'|')) return E_INVALIDARG;
        free(rule->values[i]);
        rule->values[i] = copy(V_BSTR(value) ? V_BSTR(value) : L"");
    } else {
        HRESULT failed = VariantChangeType(&text, value, 0, VT_I4);
        if (failed) return failed;
        swprintf(number, 16, L"%d", V_I4(&text));
        free(rule->values[i]);
        rule->values[i] = copy(number);
        if (i == PROTOCOL) { // ports are reset with the protocol
            free(rule->values[LOCAL_PORTS]), free(rule->values[REMOTE_PORTS]);
            rule->values[LOCAL_PORTS] = copy(L"*"), rule->values[REMOTE_PORTS] = copy(L"*");
        }
    }
    return rule->number ? store(rule) : S_OK;
}

static HRESULT add(VARIANT *argument) {
    Object *added = NULL, *rule = V_VT(argument) == VT_DISPATCH ? (Object *)V_DISPATCH(argument) : NULL;
    HRESULT failed = rule && rule->kind == RULE ? make(RULE, &added) : E_INVALIDARG;
    if (failed) return failed;
    for (int i = 0; i < COUNT; i++) { free(added->values[i]); added->values[i] = copy(rule->values[i]); }
    for (DWORD n = 0; (n = next(n)); ) added->number = n;
    added->number++;
    failed = store(added);
    Release((IUnknown *)added);
    return failed;
}

// remove_named removes the first rule with a name, like Windows regardless of its owner.
static HRESULT remove_named(VARIANT *name) {
    WCHAR key[128];
    if (V_VT(name) != VT_BSTR) return DISP_E_TYPEMISMATCH;
    for (DWORD n = 0; (n = next(n)); ) {
        Object *rule;
        if (make(RULE, &rule)) return E_OUTOFMEMORY;
        rule->number = n;
        BOOL matches = load(rule) && !_wcsicmp(rule->values[NAME], V_BSTR(name));
        Release((IUnknown *)rule);
        rule_key(n, key);
        if (!matches) continue;
        LSTATUS failed = RegDeleteKeyW(HKEY_LOCAL_MACHINE, key);
        return HRESULT_FROM_WIN32(failed); // a macro that evaluates its argument more than once
    }
    return S_OK; // like Windows, also for a missing rule
}

static HRESULT WINAPI Invoke(IDispatch *dispatch, DISPID id, REFIID iid, LCID locale, WORD flags, DISPPARAMS *p, VARIANT *result,
                             EXCEPINFO *exception, UINT *argument) {
    Object *o = (Object *)dispatch, *made = NULL;
    HRESULT failed;
    if (o->kind == RULE && flags & DISPATCH_PROPERTYPUT) return p->cArgs == 1 ? put_property(o, id - 1, &p->rgvarg[0]) : DISP_E_BADPARAMCOUNT;
    if (o->kind == RULE) return result ? get_property(o, id - 1, result) : E_POINTER;
    switch (id) {
    case METHOD_RULES:
        failed = make(RULE_LIST, &made);
        return failed ? failed : give(made, VT_DISPATCH, result);
    case DISPID_NEWENUM:
        failed = make(ENUMERATION, &made);
        return failed ? failed : give(made, VT_UNKNOWN, result);
    case METHOD_STATE: case METHOD_COUNT:
        V_VT(result) = VT_I4;
        V_I4(result) = 0;
        for (DWORD n = 0; id == METHOD_COUNT && (n = next(n)); ) V_I4(result)++;
        return S_OK;
    case METHOD_ADD: return p->cArgs == 1 ? add(&p->rgvarg[0]) : DISP_E_BADPARAMCOUNT;
    case METHOD_REMOVE: return p->cArgs == 1 ? remove_named(&p->rgvarg[0]) : DISP_E_BADPARAMCOUNT;
    }
    return DISP_E_MEMBERNOTFOUND;
}

static HRESULT WINAPI Next(IEnumVARIANT *e, ULONG count, VARIANT *out, ULONG *got) {
    Object *o = (Object *)e, *rule;
    ULONG n = 0;
    for (DWORD number; n < count && (number = next(o->number)); n++) {
        if (make(RULE, &rule)) return E_OUTOFMEMORY;
        rule->number = o->number = number;
        load(rule);
        give(rule, VT_DISPATCH, &out[n]);
    }
    if (got) *got = n;
    return n == count ? S_OK : S_FALSE;
}
static HRESULT WINAPI Skip(IEnumVARIANT *e, ULONG count) { return E_NOTIMPL; }
static HRESULT WINAPI Reset(IEnumVARIANT *e) { ((Object *)e)->number = 0; return S_OK; }
static HRESULT WINAPI Clone(IEnumVARIANT *e, IEnumVARIANT **out) { return E_NOTIMPL; }

static HRESULT WINAPI CreateInstance(IClassFactory *f, IUnknown *outer, REFIID id, void **out) {
    Object *made;
    *out = NULL;
    if (outer) return CLASS_E_NOAGGREGATION;
    HRESULT failed = make(((Object *)f)->makes, &made);
    if (failed) return failed;
    failed = query(made, id, out);
    Release((IUnknown *)made);
    return failed;
}
static HRESULT WINAPI LockServer(IClassFactory *f, BOOL lock) { return S_OK; }

static HRESULT make(Kind kind, Object **made) {
#define UNKNOWN (void *)QueryInterface, (void *)AddRef, (void *)Release
    static IDispatchVtbl dispatch = {UNKNOWN, GetTypeInfoCount, GetTypeInfo, GetIDsOfNames, Invoke};
    static IEnumVARIANTVtbl enumeration = {UNKNOWN, Next, Skip, Reset, Clone};
    static IClassFactoryVtbl factory = {UNKNOWN, CreateInstance, LockServer};
    Object *o = calloc(1, sizeof(Object));
    if (!o) return E_OUTOFMEMORY;
    o->table = kind == FACTORY ? (void *)&factory : kind == ENUMERATION ? (void *)&enumeration : (void *)&dispatch;
    o->references = 1;
    o->kind = kind;
    for (int i = 0; i < COUNT && kind == RULE; i++) o->values[i] = copy(properties[i].initial);
    *made = o;
    return S_OK;
}

__declspec(dllexport) HRESULT WINAPI DllGetClassObject(REFCLSID class, REFIID id, void **out) {
    Object *factory;
    BOOL isPolicy = IsEqualGUID(class, &CLSID_NetFwPolicy2);
    *out = NULL;
    if (!isPolicy && !IsEqualGUID(class, &CLSID_NetFwRule)) return CLASS_E_CLASSNOTAVAILABLE;
    HRESULT failed = make(FACTORY, &factory);
    if (failed) return failed;
    factory->makes = isPolicy ? POLICY : RULE;
    failed = query(factory, id, out);
    Release((IUnknown *)factory);
    return failed;
}

__declspec(dllexport) HRESULT WINAPI DllCanUnloadNow(void) { return S_FALSE; }

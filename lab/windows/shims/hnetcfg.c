// hnetcfg.dll: firewall rules, of which Wine only has the COM objects. Here rules are registry keys
// HKLM\Software\WMCOLab\Firewall\<number> with a value for each property. Objects support only calls by name (IDispatch), and have the class
// IDs of Wine's own DLL. The rules have no effect on connections.
#include "dispatch.h"
#include <netfw.h>
#include <stdlib.h>
#include <wchar.h>

#define RULES L"Software\\WMCOLab\\Firewall"

enum { POLICY, RULE_LIST, RULE, ENUMERATION };

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

typedef struct {
    Object object;
    DWORD number; // number of a rule in the registry, or 0 if it is not there. For an enumeration, its position
    WCHAR *values[COUNT];
} Rule;

static void rule_key(DWORD number, WCHAR key[128]) { swprintf(key, 128, RULES L"\\%08u", number); }

static WCHAR *copy(const WCHAR *text) {
    WCHAR *all = malloc((wcslen(text) + 1) * sizeof(WCHAR));
    return wcscpy(all, text);
}

static BOOL load(Rule *rule) {
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

static HRESULT store(Rule *rule) {
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

static BOOL member(int kind, const WCHAR *name, DISPID *id) {
    static const struct { int kind; const WCHAR *name; DISPID id; } methods[] = {
        {POLICY, L"Rules", METHOD_RULES}, {POLICY, L"LocalPolicyModifyState", METHOD_STATE}, {RULE_LIST, L"Add", METHOD_ADD},
        {RULE_LIST, L"Remove", METHOD_REMOVE}, {RULE_LIST, L"Count", METHOD_COUNT}, {RULE_LIST, L"_NewEnum", DISPID_NEWENUM},
    };
    for (int i = 0; i < COUNT && kind == RULE; i++)
        if (!_wcsicmp(name, properties[i].name)) { *id = 1 + i; return TRUE; }
    for (unsigned i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (kind == methods[i].kind && !_wcsicmp(name, methods[i].name)) { *id = methods[i].id; return TRUE; }
    return FALSE;
}

static HRESULT get_property(Rule *rule, int i, VARIANT *result) {
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
static HRESULT put_property(Rule *rule, int i, VARIANT *value) {
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
    Rule *added = NULL, *rule = V_VT(argument) == VT_DISPATCH ? (Rule *)V_DISPATCH(argument) : NULL;
    HRESULT failed = rule && rule->object.kind == RULE ? make(RULE, (Object **)&added) : E_INVALIDARG;
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
        Rule *rule;
        if (make(RULE, (Object **)&rule)) return E_OUTOFMEMORY;
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

static HRESULT call(Object *o, DISPID id, WORD flags, VARIANT *arguments, UINT count, VARIANT *result) {
    Object *made = NULL;
    HRESULT failed;
    if (o->kind == RULE && flags & DISPATCH_PROPERTYPUT) return count == 1 ? put_property((Rule *)o, id - 1, &arguments[0]) : DISP_E_BADPARAMCOUNT;
    if (o->kind == RULE) return get_property((Rule *)o, id - 1, result);
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
    case METHOD_ADD: return count == 1 ? add(&arguments[0]) : DISP_E_BADPARAMCOUNT;
    case METHOD_REMOVE: return count == 1 ? remove_named(&arguments[0]) : DISP_E_BADPARAMCOUNT;
    }
    return DISP_E_MEMBERNOTFOUND;
}

static HRESULT WINAPI Next(IEnumVARIANT *e, ULONG count, VARIANT *out, ULONG *got) {
    Rule *position = (Rule *)e, *rule;
    ULONG n = 0;
    for (DWORD number; n < count && (number = next(position->number)); n++) {
        if (make(RULE, (Object **)&rule)) return E_OUTOFMEMORY;
        rule->number = position->number = number;
        load(rule);
        give(&rule->object, VT_DISPATCH, &out[n]);
    }
    if (got) *got = n;
    return n == count ? S_OK : S_FALSE;
}
static HRESULT WINAPI Skip(IEnumVARIANT *e, ULONG count) { return E_NOTIMPL; }
static HRESULT WINAPI Reset(IEnumVARIANT *e) { ((Rule *)e)->number = 0; return S_OK; }
static HRESULT WINAPI Clone(IEnumVARIANT *e, IEnumVARIANT **out) { return E_NOTIMPL; }

static HRESULT WINAPI QueryEnumeration(IUnknown *e, REFIID id, void **out) { return query((Object *)e, &IID_IEnumVARIANT, id, out); }

static HRESULT make(int kind, Object **made) {
    static IEnumVARIANTVtbl enumeration = {(void *)QueryEnumeration, (void *)AddRef, (void *)Release, Next, Skip, Reset, Clone};
    Rule *o = (Rule *)prepare(kind, sizeof(Rule));
    if (!o) return E_OUTOFMEMORY;
    if (kind == ENUMERATION) o->object.table = (void *)&enumeration;
    for (int i = 0; i < COUNT && kind == RULE; i++) o->values[i] = copy(properties[i].initial);
    *made = &o->object;
    return S_OK;
}

static void destroy(Object *o) {
    for (int i = 0; i < COUNT; i++) free(((Rule *)o)->values[i]);
}

static BOOL class_kind(REFCLSID class, int *kind) {
    *kind = IsEqualGUID(class, &CLSID_NetFwPolicy2) ? POLICY : RULE;
    return *kind == POLICY || IsEqualGUID(class, &CLSID_NetFwRule);
}

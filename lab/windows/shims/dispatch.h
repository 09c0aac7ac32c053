// Objects of COM whose members are called by name (IDispatch), for DLLs that stand in for one of Windows. Such a DLL defines the five functions that
// are declared here, and objects that begin with an Object.
#define COBJMACROS
#include <initguid.h>
#include <windows.h>
#include <oaidl.h>
#include <stdlib.h>

typedef struct Object {
    IUnknownVtbl *table; // of IDispatch, IClassFactory or IEnumVARIANT, which start with that of IUnknown
    LONG references;
    int kind;
} Object;

// class_kind finds the kind of the objects of a class.
static BOOL class_kind(REFCLSID class, int *kind);
// make creates an object with one reference, by prepare.
static HRESULT make(int kind, Object **made);
// destroy frees what an object has, but not the object itself.
static void destroy(Object *o);
// member finds the number of a member of a kind of objects.
static BOOL member(int kind, const WCHAR *name, DISPID *id);
// call reads or calls a member, or sets a property. Arguments are in reverse order.
static HRESULT call(Object *o, DISPID id, WORD flags, VARIANT *arguments, UINT count, VARIANT *result);

static HRESULT query(Object *o, REFIID own, REFIID id, void **out) {
    BOOL has = IsEqualGUID(id, &IID_IUnknown) || IsEqualGUID(id, own);
    *out = has ? o : NULL;
    if (has) InterlockedIncrement(&o->references);
    return has ? S_OK : E_NOINTERFACE;
}
static HRESULT WINAPI QueryInterface(IUnknown *o, REFIID id, void **out) { return query((Object *)o, &IID_IDispatch, id, out); }
static ULONG WINAPI AddRef(IUnknown *o) { return InterlockedIncrement(&((Object *)o)->references); }
static ULONG WINAPI Release(IUnknown *unknown) {
    Object *o = (Object *)unknown;
    ULONG left = InterlockedDecrement(&o->references);
    if (left) return left;
    destroy(o);
    free(o);
    return 0;
}

static HRESULT WINAPI GetTypeInfoCount(IDispatch *o, UINT *count) { *count = 0; return S_OK; }
static HRESULT WINAPI GetTypeInfo(IDispatch *o, UINT i, LCID locale, ITypeInfo **info) { return E_NOTIMPL; }
static HRESULT WINAPI GetIDsOfNames(IDispatch *o, REFIID id, LPOLESTR *names, UINT count, LCID locale, DISPID *ids) {
    if (count != 1) return E_INVALIDARG;
    return member(((Object *)o)->kind, names[0], ids) ? S_OK : DISP_E_UNKNOWNNAME;
}
static HRESULT WINAPI Invoke(IDispatch *o, DISPID id, REFIID iid, LCID locale, WORD flags, DISPPARAMS *p, VARIANT *result, EXCEPINFO *exception, UINT *argument) {
    VARIANT ignored;
    return call((Object *)o, id, flags, p->rgvarg, p->cArgs, result ? result : &ignored);
}

static HRESULT give(Object *o, VARTYPE type, VARIANT *result) {
    V_VT(result) = type;
    V_UNKNOWN(result) = (IUnknown *)o;
    return S_OK;
}

// prepare creates an object of size bytes with zeros after its beginning.
static Object *prepare(int kind, size_t size) {
    static IDispatchVtbl table = {(void *)QueryInterface, (void *)AddRef, (void *)Release, GetTypeInfoCount, GetTypeInfo, GetIDsOfNames, Invoke};
    Object *o = calloc(1, size);
    if (o) *o = (Object){.table = (void *)&table, .references = 1, .kind = kind};
    return o;
}

// A factory has the kind of objects that it creates. It is never freed.
static HRESULT WINAPI QueryFactory(IUnknown *o, REFIID id, void **out) { return query((Object *)o, &IID_IClassFactory, id, out); }
static ULONG WINAPI one(IUnknown *o) { return 1; }
static HRESULT WINAPI CreateInstance(IClassFactory *f, IUnknown *outer, REFIID id, void **out) {
    Object *made;
    *out = NULL;
    if (outer) return CLASS_E_NOAGGREGATION;
    HRESULT failed = make(((Object *)f)->kind, &made);
    if (failed) return failed;
    failed = QueryInterface((IUnknown *)made, id, out);
    Release((IUnknown *)made);
    return failed;
}
static HRESULT WINAPI LockServer(IClassFactory *f, BOOL lock) { return S_OK; }

__declspec(dllexport) HRESULT WINAPI DllGetClassObject(REFCLSID class, REFIID id, void **out) {
    static IClassFactoryVtbl table = {(void *)QueryFactory, (void *)one, (void *)one, CreateInstance, LockServer};
    int kind;
    *out = NULL;
    if (!class_kind(class, &kind)) return CLASS_E_CLASSNOTAVAILABLE;
    Object *factory = calloc(1, sizeof(Object));
    if (!factory) return E_OUTOFMEMORY;
    *factory = (Object){.table = (void *)&table, .kind = kind};
    return QueryFactory((IUnknown *)factory, id, out);
}

__declspec(dllexport) HRESULT WINAPI DllCanUnloadNow(void) { return S_FALSE; }

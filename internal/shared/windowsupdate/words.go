package windowsupdate

import "fmt"

// Describe returns an HRESULT of Windows Update with its meaning, if it is known. Meanings are those of wuerror.h and winerror.h
// (https://learn.microsoft.com/windows/deployment/update/windows-update-error-reference).
func Describe(code uint32) string {
	if text := meaning(code); text != "" {
		return fmt.Sprintf("%#08x (%s)", code, text)
	}
	return fmt.Sprintf("%#08x", code)
}

func meaning(code uint32) string {
	return map[uint32]string{
		// Codes of the agent.
		0x80240009: "another operation of Windows Update is in progress", // WU_E_OPERATIONINPROGRESS
		0x8024000b: "the operation was canceled",
		0x80240016: "another installation is in progress, or a restart is pending",                       // WU_E_INSTALL_NOT_ALLOWED
		0x80240017: "the update does not apply to this Windows",                                          // WU_E_NOT_APPLICABLE
		0x8024001e: "the service or Windows is stopping",                                                 // WU_E_SERVICE_STOP
		0x80240022: "no update could be installed",                                                       // WU_E_ALL_UPDATES_FAILED
		0x8024002e: "a policy denies access to Windows Update",                                           // WU_E_WU_DISABLED
		0x80240044: "the account may not use Windows Update",                                             // WU_E_PER_MACHINE_UPDATE_ACCESS_DENIED
		0x80240438: "there is no route or network connectivity to the update server",                     // WU_E_PT_ENDPOINT_UNREACHABLE
		0x80240fff: "unexpected error of the agent",                                                      // WU_E_UNEXPECTED
		0x80242014: "the update waits for a restart",                                                     // WU_E_UH_POSTREBOOTSTILLPENDING
		0x80244017: "the update server or proxy requires authentication (HTTP 401)",                      // WU_E_PT_HTTP_STATUS_DENIED
		0x80244018: "the update server or proxy refuses the request (HTTP 403)",                          // WU_E_PT_HTTP_STATUS_FORBIDDEN
		0x80244019: "the update server does not have what was requested (HTTP 404)",                      // WU_E_PT_HTTP_STATUS_NOT_FOUND
		0x8024401b: "the proxy requires authentication (HTTP 407)",                                       // WU_E_PT_HTTP_STATUS_PROXY_AUTH_REQ
		0x8024401c: "the update server did not answer in time (HTTP 408)",                                // WU_E_PT_HTTP_STATUS_REQUEST_TIMEOUT
		0x8024401f: "the update server has an internal error (HTTP 500)",                                 // WU_E_PT_HTTP_STATUS_SERVER_ERROR
		0x80244022: "the update server is overloaded (HTTP 503)",                                         // WU_E_PT_HTTP_STATUS_SERVICE_UNAVAIL
		0x8024402c: "the name of the update server or proxy cannot be resolved",                          // WU_E_PT_WINHTTP_NAME_NOT_RESOLVED
		0x80248007: "the agent's data store does not have the information",                               // WU_E_DS_NODATA
		0x80248014: "the update service is not registered on the host",                                   // WU_E_DS_UNKNOWNSERVICE
		0x800f081f: "files that the update needs are missing from the component store",                   // CBS_E_SOURCE_MISSING
		0x800f0922: "the installation failed in Windows' servicing; see C:\\Windows\\Logs\\CBS\\CBS.log", // CBS_E_INSTALLERS_FAILED
		// Codes of Windows.
		0x80004001: "this Windows does not implement the call",                                        // E_NOTIMPL
		0x80020006: "this Windows does not implement the call",                                        // DISP_E_UNKNOWNNAME
		0x80040154: "this Windows has no Windows Update Agent",                                        // REGDB_E_CLASSNOTREG
		0x80070005: "access is denied",                                                                // ERROR_ACCESS_DENIED
		0x8007000e: "Windows is out of memory",                                                        // ERROR_OUTOFMEMORY
		0x80070070: "the disk is full",                                                                // ERROR_DISK_FULL
		0x80070422: "the service is disabled",                                                         // ERROR_SERVICE_DISABLED
		0x80070643: "the installer of the update failed",                                              // ERROR_INSTALL_FAILURE
		0x800706ba: "the service does not answer",                                                     // RPC_S_SERVER_UNAVAILABLE
		0x80072ee2: "the update server did not answer in time",                                        // ERROR_WINHTTP_TIMEOUT
		0x80072efd: "the update server cannot be reached",                                             // ERROR_WINHTTP_CANNOT_CONNECT
		0x80072f8f: "the certificate of the update server is not valid by the host's clock and trust", // ERROR_WINHTTP_SECURE_FAILURE
		0x80073712: "the component store is damaged",                                                  // ERROR_SXS_COMPONENT_STORE_CORRUPT
	}[code]
}

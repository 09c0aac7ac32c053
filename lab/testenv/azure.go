//go:build linux

package testenv

import (
	"encoding/json"
	"net/http"
	"strings"
)

// AzureMachine is a virtual machine of Azure as its metadata service describes it. It serves that service over HTTP: the instance, and the
// public address that a load balancer gives it, as Microsoft documents them (Azure Instance Metadata Service, version 2021-10-01).
type AzureMachine struct {
	// Name is the name of the virtual machine, Address its private address, PublicAddress the address of its load balancer.
	Name, Address, PublicAddress string
}

// The values of every machine.
const (
	azureSubscription = "6f1c0f0a-0000-4000-8000-000000000001"
	azureGroup        = "Lab-RG"
	// AzureType, AzureRegion and AzureZone are the instance type, region and zone of its Node.
	AzureType   = "Standard_D4s_v5"
	AzureRegion = "westeurope"
	AzureZone   = "westeurope-2"
)

// ProviderID returns the provider ID of the machine's Node, with the name of the resource group in lower case.
func (m AzureMachine) ProviderID() string {
	return "azure:///subscriptions/" + azureSubscription + "/resourceGroups/" + strings.ToLower(azureGroup) +
		"/providers/Microsoft.Compute/virtualMachines/" + m.Name
}

// ServeHTTP implements http.Handler. Requests without header Metadata, or with one of a proxy, get an error, as on Azure.
func (m AzureMachine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type object = map[string]any
	isDirect := strings.EqualFold(r.Header.Get("Metadata"), "true") && r.Header.Get("X-Forwarded-For") == ""
	if r.Method != http.MethodGet || !isDirect || r.URL.Query().Get("api-version") == "" {
		http.Error(w, `{"error":"Bad request. Required metadata header not specified"}`, http.StatusBadRequest)
		return
	}
	var answer object
	switch r.URL.Path {
	case "/metadata/instance":
		answer = object{
			"compute": object{
				"azEnvironment": "AzurePublicCloud", "location": AzureRegion, "name": m.Name, "osType": "Windows", "platformFaultDomain": "0",
				"platformSubFaultDomain": "", "platformUpdateDomain": "0", "resourceGroupName": azureGroup, "sku": "2022-datacenter",
				"resourceId":     strings.Replace(m.ProviderID(), "azure://", "", 1),
				"subscriptionId": azureSubscription, "tagsList": []object{}, "vmScaleSetName": "", "vmSize": AzureType, "zone": "2",
			},
			"network": object{"interface": []object{{
				"ipv4": object{
					"ipAddress": []object{{"privateIpAddress": m.Address, "publicIpAddress": ""}}, "subnet": []object{{"address": "10.0.0.0", "prefix": "24"}},
				},
				"ipv6": object{"ipAddress": []object{}}, "macAddress": "0022480EBCC1",
			}}},
		}
	case "/metadata/loadbalancer":
		answer = object{"loadbalancer": object{
			"publicIpAddresses": []object{{"frontendIpAddress": m.PublicAddress, "privateIpAddress": m.Address}}, "inboundRules": []object{}, "outboundRules": []object{},
		}}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(answer)
}

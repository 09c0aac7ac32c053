// Package apiclient is WICD's client of the API server. It supports only Nodes, certificate requests, events, published settings and Services,
// which keeps WICD small.
package apiclient

// Package apiclient is the API server as WICD sees it: Nodes, certificate requests, events, published settings and Services, and
// nothing else, which keeps WICD small.
package apiclient

// Package store brings the content of versions onto the host: the operator sends what is missing, and each content is stored under its hash.
package store

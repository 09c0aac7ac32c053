// Package logrotate keeps the services' logs within their limits, writes WICD's own log, and reads the end of a log for messages.
package logrotate

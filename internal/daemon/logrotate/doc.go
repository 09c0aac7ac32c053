// Package logrotate keeps the logs of services within their limits, writes WICD's own, and reads the end of a log for messages.
package logrotate

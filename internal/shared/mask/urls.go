package mask

import (
	"strings"
)

// urls finds the user and password of URLs, even if the URL is invalid because the password was not escaped.
func urls(line string) (found spans) {
	for at := 0; ; {
		i := strings.Index(line[at:], "://")
		if i < 0 {
			return found
		}
		from := at + i + len("://")
		to := from + endOfURL(line[from:])
		if n := userInfo(line[from:to]); n > 0 {
			found = append(found, span{from, from + n})
		}
		at = from
	}
}

// endOfURL returns the end of a URL: a space, a quotation mark or the next URL.
func endOfURL(s string) int {
	end := len(s)
	if next := strings.Index(s, "://"); next >= 0 {
		if end = strings.LastIndexAny(s[:next], ",;|= "); end < 0 {
			end = next
		}
	}
	if blank := strings.IndexAny(s[:end], " \t\"<>`"); blank >= 0 {
		end = blank
	}
	return len(strings.TrimRight(s[:end], `\'`))
}

// userInfo returns the length of user and password in a URL without its scheme.
func userInfo(s string) int {
	last := strings.LastIndex(s, "@")
	if last <= 0 {
		return 0
	}
	end := strings.IndexAny(s, "/?#")
	if end < 0 {
		end = len(s)
	}
	authority, host := s[:end], s[last+1:]
	_, port, hasPort := strings.Cut(authority, ":")
	switch {
	case strings.HasPrefix(host, "sha256:") || strings.HasPrefix(host, "sha512:"): // the digest of an image
		last = strings.LastIndex(authority, "@")
	case strings.Contains(authority, "@"):
		if !isHost(host) {
			last = strings.LastIndex(authority, "@")
		}
	case hasPort && (!isNumber(port) || hostHasPort(host)): // the password has a slash
	default:
		return 0
	}
	return max(last, 0)
}

// isHost reports whether a text can be a host, with port and path.
func isHost(s string) bool {
	if end := strings.IndexAny(s, "/?#"); end >= 0 {
		s = s[:end]
	}
	s = strings.TrimRight(s, ",.;:)]}'")
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_:[]%") == ""
}

func hostHasPort(s string) bool {
	if end := strings.IndexAny(s, "/?# "); end >= 0 {
		s = s[:end]
	}
	colon := strings.LastIndex(s, ":")
	return isHost(s) && colon > 0 && isNumber(strings.TrimRight(s[colon+1:], ",.;:)]}'"))
}

# Prints what failed from the output of go test, with -v or without: the failed tests, with what they said, and what ended whole packages.
# What tests that passed have logged, and the logs of clusters that failed tests print, are left out.
/^=== (RUN|NAME|CONT)/ { test = $3; next }
/^ *--- (PASS|SKIP)/ { test = ""; next }
/^ *--- FAIL/ { test = $3; failed[++n] = test; said[test] = substr($0, 1, 1000) "\n" said[test]; next }
/^panic: /, /^$/ { other = other substr($0, 1, 1000) "\n"; next }
/^(FAIL|WARNING: DATA RACE)|\*\*\* Test killed/ { other = other $0 "\n"; next }
/^ +[A-Za-z0-9_]+\.go:[0-9]+: / { said[test] = said[test] substr($0, 1, 1000) "\n" }
END {
	for (i = 1; i <= n; i++) printf "%s", said[failed[i]]
	printf "%s", other
}

package userdata

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	oldKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOldOldOldOldOldOldOldOldOldOldOldOldOldOldOld"
	newKey = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAA+/w=="
)

// TestScriptOfEachPlatform compares with complete scripts in testdata, whose PowerShell syntax make check verifies.
func TestScriptOfEachPlatform(t *testing.T) {
	for _, in := range []struct {
		name, platform string
		keys, from     []string
	}{
		{"aws", "AWS", []string{oldKey}, nil}, {"gcp", "GCP", []string{oldKey}, nil}, {"none", "None", []string{oldKey}, nil},
		{"none", "Azure", []string{oldKey}, nil}, {"none", "VSphere", []string{oldKey}, nil}, {"none", "Nutanix", []string{oldKey}, nil},
		{"two-keys", "GCP", []string{newKey, oldKey}, nil}, {"limited", "GCP", []string{oldKey}, []string{"10.0.0.0/16", "fd00::/64"}},
	} {
		got, err := Render(in.platform, in.keys, in.from)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join("testdata", in.name+".golden")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil || got != string(want) {
			t.Errorf("the script of %s differs from %s (%v); go test -update writes it", in.platform, file, err)
		}
	}
}

func TestScriptMeetsPlatformRequirements(t *testing.T) {
	many := slices.Repeat([]string{"fd00:1111:2222:3333:4444:5555:6666:7777/128"}, 64)
	for _, platform := range []string{"AWS", "Azure", "GCP", "VSphere", "Nutanix", "None", "BareMetal", ""} {
		text, err := Render(platform, []string{newKey, oldKey}, many)
		if err != nil {
			t.Fatal(err)
		}
		wrapped := strings.HasPrefix(text, "<powershell>\n") && strings.HasSuffix(text, "\n</powershell>\n<persist>true</persist>\n") && strings.Count(text, "powershell>") == 2
		if wrapped != (platform != "GCP") {
			t.Errorf("%s: the script is wrapped: %t", platform, wrapped)
		}
		if strings.Contains(text, "EC2Launch.exe") != (platform == "AWS") {
			t.Errorf("%s: the part for Amazon must be present on Amazon only", platform)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return r > '~' || r < ' ' && r != '\n' }) {
			t.Errorf("%s: the script has characters that not every agent and code page reads in the same way", platform)
		}
		if len(text) > 16<<10 {
			t.Errorf("%s: %d bytes exceed Amazon's limit of 16 KiB", platform, len(text))
		}
		if i, j := strings.Index(text, newKey), strings.Index(text, oldKey); i < 0 || j < i {
			t.Errorf("%s does not have both keys", platform)
		}
		for _, left := range []string{"#KEYS#", "#ALLOWFROM#", "#PLATFORM#", "#STEPS#"} {
			if strings.Contains(text, left) {
				t.Errorf("%s still has %s", platform, left)
			}
		}
		for _, loads := range []string{"http:", "https:", "Invoke-WebRequest", "DownloadFile", "DownloadString", "iwr ", "curl", "Start-BitsTransfer"} {
			if strings.Contains(text, loads) {
				t.Errorf("%s downloads unverified content (%s)", platform, loads)
			}
		}
	}
}

func TestScriptContainsOnlyValidKeys(t *testing.T) {
	for name, keys := range map[string][]string{
		"none":             nil,
		"empty":            {""},
		"a quotation mark": {"ssh-rsa AAAA'; Restart-Computer; '"},
		"a line break":     {oldKey + "\nRestart-Computer"},
		"options":          {`command="x" ` + oldKey},
		"a comment":        {oldKey + " me@example.com"},
		"second of two":    {oldKey, "$(Restart-Computer)"},
	} {
		if text, err := Render("AWS", keys, nil); err == nil {
			t.Errorf("%s is taken for a key:\n%s", name, text)
		} else if strings.Contains(err.Error(), "Restart") {
			t.Errorf("the error repeats its input: %v", err)
		}
	}
}

func TestScriptContainsOnlyValidRanges(t *testing.T) {
	for _, r := range []string{"", "10.0.0.0", "Any", "10.0.0.0/8'; Restart-Computer; '", "10.0.0.0/8\n", "fe80::1%a'/64"} {
		if text, err := Render("AWS", []string{oldKey}, []string{"10.0.0.0/8", r}); err == nil {
			t.Errorf("%q is taken for a range:\n%s", r, text)
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add("AWS", oldKey, "10.0.0.0/16")
	f.Add("GCP", "'", "fd00::/8'")
	f.Fuzz(func(t *testing.T, platform, key, from string) {
		text, err := Render(platform, []string{key}, []string{from})
		if err != nil {
			return
		}
		if strings.ContainsAny(from, "'\n\r`$\"") || !strings.Contains(text, "$allowFrom = @(\n    '") {
			t.Errorf("range %q got into the script, but not as a string", from)
		}
		if strings.ContainsAny(key, "'\n\r`$\"") || !strings.Contains(text, "    '"+key+"'\n)") {
			t.Errorf("key %q got into the script, but not as a string", key)
		}
	})
}

// function returns one of the script's functions.
func function(t *testing.T, name string) string {
	t.Helper()
	text, err := Render("AWS", []string{oldKey}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(text, "\nfunction "+name+" {\n")
	body, _, ended := strings.Cut(rest, "\n}\n")
	if !found || !ended {
		t.Fatalf("the script has no function %s", name)
	}
	return body
}

func expectAll(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("missing %q in:\n%s", part, text)
		}
	}
}

func TestScriptRetriesInstallationWithoutNetwork(t *testing.T) {
	expectAll(t, function(t, "Invoke-WithRetries"), "if ($n -ge 60) { throw }", "Start-Sleep -Seconds 15")
	body := function(t, "Install-Server")
	expectAll(t, body, "Get-Service -Name 'sshd'", "{ return }")
	_, retried, _ := strings.Cut(body, "Invoke-WithRetries")
	expectAll(t, retried, "Add-WindowsCapability -Online -Name 'OpenSSH.Server~~~~0.0.1.0'", "Get-Service -Name 'sshd'")
}

func TestFirewallRuleAppliesToAllProfiles(t *testing.T) {
	body := function(t, "Open-Firewall")
	found, fresh, _ := strings.Cut(body, "return")
	expectAll(t, found, "'OpenSSH-Server-In-TCP'", "Set-NetFirewallRule -Name $name -Enabled True -Profile Any -Action Allow", "@limit")
	expectAll(t, fresh, "New-NetFirewallRule -Name $name", "-Profile Any", "-Enabled True", "-LocalPort 22", "@limit")
}

// TestFirewallRuleAllowsOnlySSH: ports without a server stay closed until the host is a node, and edge traversal stays blocked.
func TestFirewallRuleAllowsOnlySSH(t *testing.T) {
	text, err := Render("AWS", []string{oldKey}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text, "New-NetFirewallRule"); n != 1 || strings.Contains(text, "EdgeTraversalPolicy Allow") || strings.Contains(text, "'Allow'") {
		t.Errorf("the script creates %d rules, or allows tunnels", n)
	}
	if n := strings.Count(function(t, "Open-Firewall"), "-EdgeTraversalPolicy Block"); n != 2 {
		t.Errorf("edge traversal is blocked %d times, want once each for a new and an existing rule", n)
	}
}

func TestSSHServerStartsWithWindows(t *testing.T) {
	expectAll(t, function(t, "Start-Server"), "Set-Service -Name 'sshd' -StartupType Automatic\n", "'PubkeyAuthentication yes', 'PasswordAuthentication no'")
}

// TestScriptWaitsForServerConfiguration: the server writes it some moments after its first start, and has it open meanwhile.
func TestScriptWaitsForServerConfiguration(t *testing.T) {
	body := function(t, "Start-Server")
	starts, rest, _ := strings.Cut(body, "{ Start-Service -Name 'sshd' }")
	waits, reads, _ := strings.Cut(rest, "$lines = @([IO.File]::ReadAllLines($file))")
	if strings.Contains(starts, "ReadAllLines") {
		t.Error("the configuration is read before the server has started")
	}
	expectAll(t, waits, "Invoke-WithRetries -What 'Waiting for sshd_config' -Try { [IO.File]::ReadAllLines($file) | Out-Null }")
	expectAll(t, reads, "-Try { Move-Item -Force -Path \"$file.new\" -Destination $file }")
}

// TestReplacedKeyIsNotRestored: on some platforms the script runs at every start, even with a key that was replaced since.
func TestReplacedKeyIsNotRestored(t *testing.T) {
	body := function(t, "Add-PublicKeys")
	before, after, _ := strings.Cut(body, "{ return }")
	expectAll(t, before, "(Test-Path $marker)", "-ceq $wanted")
	if strings.Contains(before, "WriteAllLines") {
		t.Error("keys are written before the check for earlier ones")
	}
	expectAll(t, after, "WriteAllLines(\"$file.new\"", "/inheritance:r /grant:r '*S-1-5-32-544:F' '*S-1-5-18:F'", "WriteAllText($marker, $wanted)")
	if strings.Index(after, "WriteAllText($marker") < strings.Index(after, "Move-Item") {
		t.Error("the keys are recorded before they are written")
	}
}

// TestFirewallOpensLast: the operator logs in as soon as it can, and may restart the host at once.
func TestFirewallOpensLast(t *testing.T) {
	for _, cloud := range []string{"AWS", "Azure", "GCP", "None", "VSphere"} {
		script, err := Render(cloud, []string{oldKey}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(script, "'Open-Firewall')) {") {
			t.Errorf("%s: the firewall is not opened by the last step", cloud)
		}
	}
}

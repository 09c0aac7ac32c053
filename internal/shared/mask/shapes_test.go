package mask_test

import (
	"encoding/base64"
	"slices"
	"strings"
)

// shape is a text with a secret, in a form in which programs and people write it. The masker does not know the secret.
type shape struct{ name, text string }

func shapes() []shape {
	return slices.Concat(urls(), inDocuments(), pairs(), commands(), headers(), tokens(), encoded())
}

// leaks reports whether a part of the secret of the shapes is visible.
func leaks(text string) bool {
	return slices.ContainsFunc([]string{"hunter2", "hun", "ter2", "aHVudGVy", "more"}, func(part string) bool { return strings.Contains(text, part) })
}

func urls() []shape {
	return []shape{
		{"URL, a second @", `HTTPS_PROXY=http://user:p@hunter2@proxy.example.com:3128`},
		{"URL, a slash", `HTTPS_PROXY=http://user:hun/ter2@proxy.example.com:3128`},
		{"URL, escaped", `proxyconnect tcp: dial http://user:hun%2Fter2@proxy:3128`},
		{"URL of a database", `mongodb+srv://user:hunter2@host/db`},
		{"URL, two of them", `no_proxy=a http://one:hunter2@a:1,http://two:hunter2@b:2`},
		{"URL, no user", `redis://:hunter2@cache:6379/0`},
		{"URL, only a token", `git clone https://hunter2hunter2@git.example.com/x.git`},
		{"URL, IPv6", `http://user:hunter2@[fd00::1]:3128/`},
		{"URL, question mark", `http://user:hun?ter2@proxy:3128`},
		{"URL, number sign", `http://user:hun#ter2@proxy:3128`},
		{"URL, inside of a query", `GET /login?next=https%3A%2F%2Fuser%3Ahunter2%40git.example.com%2Fx`},
		{"URL in JSON, escaped", `{"msg":"{\"proxy\":\"http:\/\/user:hunter2@proxy:3128\"}"}`},
		{"URL in a message", `level=error msg="Get \"https://user:hunter2@quay.io/v2/\": EOF"`},
		{"signed URL", `https://acct.blob.core.windows.net/c?sv=1&sig=hunter2%3D&se=x`},
		{"signed URL in Go's JSON", `{"url":"https://acct.blob.core.windows.net/c?sv=1\u0026sig=hunter2%3D\u0026se=x"}`},
		{"signed URL of Google", `https://storage.googleapis.com/b/o?X-Goog-Signature=hunter2&x=1`},
		{"token in a query", `GET /api?access_token=hunter2&x=1 200`},
		{"webhook of Slack", `POST https://hooks.slack.com/services/T0/B0/hunter2hunter2`},
	}
}

func inDocuments() []shape {
	return []shape{
		{"YAML, auth in a line", `auths: {quay.io: {auth: aHVudGVyMjpodW50ZXIy}}`},
		{"YAML, auth", `  auth: aHVudGVyMjpodW50ZXIy`},
		{"JSON, auth", `"auth":"aHVudGVyMjpodW50ZXIy"`},
		{"JSON, auth, escaped", `{\"auths\":{\"quay.io\":{\"auth\":\"aHVudGVyMjpodW50ZXIy\"}}}`},
		{"JSON, auth, escaped twice", `{\\\"auths\\\":{\\\"quay.io\\\":{\\\"auth\\\":\\\"aHVudGVyMjpodW50ZXIy\\\"}}}`},
		{"JSON in JSON in JSON", `{"a":"{\"b\":\"{\\\"password\\\":\\\"hunter2\\\"}\"}"}`},
		{"JSON, quotation mark in it", `{"password":"hun\"ter2 more"}`},
		{"JSON, AWS", `"secretAccessKey": "hunter2"`},
		{"JSON, variable", `{"name":"DB_PASSWORD","value":"hunter2"}`},
		{"JSON, variable, value first", `x {"value":"hunter2","name":"DB_PASSWORD"}`},
		{"JSON, variables as text", `spec: [{"name":"DB_PASSWORD","value":"hunter2"},{"name":"A","value":"b"}]`},
		{"JSON, arguments", `{"args":["--password","hunter2"]}`},
		{"JSON, arguments as text", `exec ["--password","hunter2"]`},
		{"JSON, command", `{"command":["curl","-u","user:hunter2","https://x"]}`},
		{"JSON, Secret", `{"kind":"Secret","data":{"a":"hunter2"},"stringData":{"b":"hunter2"}}`},
		{"JSON, list of Secrets", `{"kind":"SecretList","items":[{"data":{"a":"hunter2"}}]}`},
		{"JSON, last applied", `{"metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"kind\":\"Secret\",\"stringData\":{\"a\":\"hunter2\"}}\n"}}}`},
		{"JSON, list of passwords", `{"passwords":["hunter2","hunter2"]}`},
		{"JSON, a number", `{"password":770041,"x":"hun"}`[:19] + `hunter2"}`},
		{"JSON over several lines", "{\n \"a\": {\n  \"name\": \"DB_PASSWORD\",\n  \"value\": \"hunter2\"\n }\n"},
		{"JSON over several lines, arguments", "[\n \"--password\",\n \"hunter2\",\n"},
		{"YAML, variable", "env:\n- name: DB_PASSWORD\n  value: hunter2\n"},
		{"YAML, variable, value first", "env:\n- value: hunter2\n  name: DB_PASSWORD\n"},
		{"YAML, arguments", "args:\n- --password\n- hunter2\n"},
		{"YAML, arguments, quoted", "args:\n  - \"--password\"\n  - \"hunter2\"\n"},
		{"YAML, Secret", "apiVersion: v1\ndata:\n  a: hunter2\nkind: Secret\n"},
		{"YAML, Secret, text of several lines", "kind: Secret\nstringData:\n  a: |\n    one\n    hunter2\n"},
		{"YAML, text of several lines", "password: |-\n  hunter2\n  hunter2\nuser: x\n"},
		{"YAML, list", "tokens:\n- hunter2\n- hunter2\n"},
		{"YAML, words", `password: correct hunter2 battery`},
		{"YAML, one quotation mark", `password: 'hunter2`},
		{"YAML, mark twice", `password: 'hun''ter2'`},
		{"kubeconfig", "users:\n- name: x\n  user:\n    token: hunter2\n    client-key-data: hunter2\n"},
		{"XML, attribute", `<add name="x" connectionString="Data Source=db;Password=hunter2"/>`},
		{"XML, element", `<AdministratorPassword>hunter2</AdministratorPassword>`},
		{"XML, answer file", "<AdministratorPassword>\n  <Value>hunter2</Value>\n  <PlainText>true</PlainText>\n</AdministratorPassword>\n"},
		{"XML, key and value", `<add key="DbPassword" value="hunter2" />`},
		{"XML, element with a namespace", `<wsse:Password Type="x#PasswordText">hunter2</wsse:Password>`},
		{"INI", "[db]\npassword = hunter2\n"},
		{"netrc", `machine git.example.com login me password hunterhunter2`},
	}
}

func pairs() []shape {
	return []shape{
		{"prose", `password hunter2`},
		{"prose, is", `the password is hunter2`},
		{"connection string of storage", `AccountName=x;AccountKey=hunter2hunter2==;EndpointSuffix=core.windows.net`},
		{"connection string, blank", `Server=db;User Id=sa;Password=hunter2 more;Encrypt=true`},
		{"connection string, quoted", `Server=db;Uid=sa;Pwd="hunter2";`},
		{"connection string of Service Bus", `Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=hunter2=`},
		{"quotation mark in it", `password="hun\"ter2 more"`},
		{"variable of PostgreSQL", `PGPASSWORD=hunter2 psql`},
		{"variable, PASS", `DB_PASS=hunter2`},
		{"variable in a list", `env:[DB_PASS=hunter2]`},
		{"passcode", `passcode=hunter2`},
		{"client_secret", `client_secret=hunter2`},
		{"Token", `Token=hunter2, next`},
		{"SecretString", `SecretString hunter2`},
		{"Go's struct", `Envs:[&KeyValue{Key:DB_PASSWORD,Value:hunter2,}]`},
		{"Go's map", `map[password:hunter2 user:x]`},
		{"Go's struct, plus", `{User:sa Password:hunter2 Host:db}`},
		{"comma in it", `password=hun,ter2`},
		{"ampersand in it", `db_password=hun&ter2`},
		{"bracket in it", `DB_PASS=hun]ter2`},
		{"quotation mark in the middle", `DB_PASS=hun"ter2`},
		{"PowerShell", `$adminPassword = "hunter2"`},
		{"PowerShell, hash table", `@{ Password = 'hunter2'; User = 'x' }`},
		{"Ruby", `:password => "hunter2"`},
		{"environment in Python", `os.environ["DB_PASSWORD"] = "hunter2"`},
		{"number at its end", `password2=hunter2`},
		{"camel case", `dbPassword: hunter2`},
		{"registry of Windows", `    DefaultPassword    REG_SZ    hunter2`},
		{"SQL", `CREATE USER x IDENTIFIED BY 'hunter2'`},
		{"SQL Server", `CREATE LOGIN x WITH PASSWORD = N'hunter2'`},
		{"escaped equals sign", `{"msg":"password\u003dhunter2 x"}`},
		{"HTML", `input name=&quot;password&quot; value=&quot;hunter2&quot;`},
		{"storage account key in logs", `storageAccountKey="hunter2"`},
		{"API key", `api_key: hunter2`},
		{"tab", "password:\thunter2"},
		{"Jenkins", `credentials='hunter2'`},
	}
}

func commands() []shape {
	return []shape{
		{"sqlcmd", `sqlcmd -S db -U sa -P hunter2`},
		{"net user", `net user evil hunter2 /add`},
		{"net use", `net use \\srv\share hunter2 /user:x`},
		{"net.exe by its path", `C:\Windows\System32\net.exe user evil hunter2`},
		{"curl", `curl -u user:hunter2 https://x`},
		{"curl, header", `curl -H "X-Api-Token: hunter2" https://x`},
		{"curl, joined", `curl -uuser:hunter2 https://x`},
		{"kubectl", `--from-literal=db=hunter2`},
		{"flag", `C:\x.exe --db-password hunter2 --v=2`},
		{"flag, quoted", `x --db-password "hunter2 more" --v=2`},
		{"flag, =", `x --token=hunter2 --v=2`},
		{"flag, slash", `setup.exe /password:hunter2 /quiet`},
		{"flag of PowerShell", `New-LocalUser x -Password hunter2`},
		{"cmdkey", `cmdkey /add:srv /user:x /pass:hunter2`},
		{"mysql", `mysql -u root -phunter2 db`},
		{"sshpass", `sshpass -p hunter2 ssh x`},
		{"docker login", `docker login -u x -p hunter2 quay.io`},
		{"skopeo", `skopeo copy --src-creds x:hunter2 docker://a docker://b`},
		{"redis-cli", `redis-cli -h x -a hunter2 PING`},
		{"plink", `plink.exe -ssh x@y -pw hunter2`},
		{"psexec", `psexec \\srv -u x -p hunter2 cmd`},
		{"schtasks", `schtasks /create /tn x /ru me /rp hunter2`},
		{"setx", `setx DB_PASSWORD hunter2`},
		{"reg add", `reg add HKLM\x /v DefaultPassword /t REG_SZ /d hunter2 /f`},
		{"SecureString", `ConvertTo-SecureString 'hunter2' -AsPlainText -Force`},
		{"openssl", `openssl rsa -passin pass:hunter2 -in x`},
		{"keytool", `keytool -storepass hunter2 -list`},
		{"inside of a message", `level=info msg="running sqlcmd -P hunter2 failed"`},
		{"aws configure", `aws configure set aws_secret_access_key hunter2`},
		{"Dockerfile", `ENV DB_PASSWORD hunter2`},
		{"smbclient", `smbclient //srv/share -U user%hunter2`},
		{"ldapsearch", `ldapsearch -D cn=x -w hunter2 -b dc=x`},
	}
}

func headers() []shape {
	return []shape{
		{"Set-Cookie", `Set-Cookie: session=hunter2hunter2`},
		{"Cookie", `Cookie: session=hunter2hunter2`},
		{"Cookie, several", `Cookie: a=b; session=hunter2; c=d`},
		{"Digest", `Authorization: Digest username="x", response="hunter2"`},
		{"Go's header", `Authorization:[Bearer hunter2hunter2]`},
		{"Negotiate", `authorization=Negotiate hunter2hunter2`},
		{"proxy, Basic", `Proxy-Authorization: Basic aHVudGVyMg==`},
		{"unknown scheme", `Authorization: AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/2/us, Signature=hunter2`},
		{"AWS in a query", `X-Amz-Security-Token=hunter2`},
		{"Vault", `X-Vault-Token: hunter2`},
		{"header in JSON", `{"headers":{"Authorization":["Bearer hunter2"],"Cookie":"s=hunter2"}}`},
		{"headers as text in JSON", `{"request":"GET / HTTP/1.1\r\nAuthorization: Bearer hunter2\r\n"}`},
		{"bearer in prose", `sent bearer hunter2hunter2hunter2`},
		{"registry of Docker", `X-Registry-Auth: aHVudGVyMjpodW50ZXIy`},
		{"quoted by curl", `curl -H 'Authorization: Token hunter2' https://x`},
	}
}

func tokens() []shape {
	of := func(parts ...string) string { return strings.Join(parts, "") } // joined, so that secret scanners do not report them
	return []shape{
		{"GitHub", of("gh", "p_16C7e42F292c6912E7710c838347hunter2a")},
		{"GitHub, fine-grained", of("github_", "pat_11AAAAAAA0hunter2hunter2_hunter2")},
		{"GitLab", of("gl", "pat-hunter2hunter2hunter2")},
		{"Slack", of("xo", "xb-1234-hunter2hunter2")},
		{"Google", of("AI", "zaSyDhunter2hunter2hunter2hunter2hunter")},
		{"npm", of("//registry.npmjs.org/:_authToken=np", "m_hunter2hunter2hunter2")},
		{"npm alone", of("np", "m_hunter2hunter2hunter2")},
		{"JWT", of("ey", "JhbGciOiJSUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.hunter2hunter2")},
		{"JWE", of("ey", "JhbGciOiJSUzI1NiJ9.abcdefgh.hunter2hunter2.hunter2.hunter2")},
		{"AWS", of("aws_access_key_id=AK", "IAHUNTER2HUNTER2AB aws_secret_access_key=hunter2")},
		{"bootstrap token", `kubeadm join abcdef.hunter2hunter2ab`},
		{"OpenShift", of("oc login with sha", "256~hunter2hunter2hunter2hunter2hunter2hunter2x")},
		{"Stripe", of("sk", "_live_hunter2hunter2hunter2")},
		{"PyPI", of("py", "pi-AgEIcHlwaS5vcmchunter2hunter2")},
		{"Docker Hub", of("dc", "kr_pat_hunter2hunter2")},
		{"Vault's own", of("hv", "s.hunter2hunter2hunter2")},
		{"Entra ID", of("abc8", "Q~hunter2hunter2hunter2hunter2hunter2x")},
		{"hash of a password", `root:$6$salt$hunter2hunter2hunter2hunter2:19000:0`},
		{"private key in one line", `-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2hunter2\nhunter2\n-----END OPENSSH PRIVATE KEY-----`},
		{"private key", "key:\n-----BEGIN RSA PRIVATE KEY-----\nhunter2\nhunter2hunter2\n-----END RSA PRIVATE KEY-----\nend\n"},
		{"private key without its end", "-----BEGIN EC PRIVATE KEY-----\nhunter2\nhunter2\n"},
		{"private key without its beginning", "hunter2hunter2\nhunter2\n-----END PRIVATE KEY-----\nend\n"},
		{"private key of PGP", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: x\n\nhunter2\n-----END PGP PRIVATE KEY BLOCK-----\n"},
		{"private key of PuTTY", "PuTTY-User-Key-File-2: ssh-rsa\nPrivate-Lines: 2\nhunter2hunter2\nhunter2\nPrivate-MAC: aa\n"},
	}
}

func encoded() []shape {
	inBase64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	wide := string(utf16Of(`net user evil hunter2 /add`))
	return []shape{
		{"base64 of a line", "content: " + inBase64("the line is DB_PASSWORD=hunter2")},
		{"base64 of base64", "content: " + inBase64(inBase64("DB_PASSWORD=hunter2"))},
		{"base64 of a private key", "x " + inBase64("-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----\n")},
		{"command of PowerShell", `powershell -EncodedCommand ` + inBase64(wide)},
		{"UTF-16", wide},
		{"escaped for URLs", `body=password%3Dhunter2%26x%3D1`},
	}
}

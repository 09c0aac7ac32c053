package win

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

func TestAccountsKeepTheContract(t *testing.T) {
	h := mustHost(t)
	contract.Accounts(t, func(*testing.T) contract.AccountsFixture {
		f := contract.AccountsFixture{
			Accounts: h.Accounts, NoJoin: "a test cannot join a domain", Register: func(t *testing.T, id string) { mustMakeKey(t, credentialPlugins+`\`+id, nil) },
			Class: func(t *testing.T, id string) { mustMakeKey(t, classIDs+`\`+id, nil) },
		}
		if !onWine() {
			f.Register, f.NoRegister = nil, "a test must not register plugins on a real Windows"
		}
		return f
	})
}

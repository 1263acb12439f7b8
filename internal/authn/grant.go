package authn

import (
	"errors"

	"github.com/tailrace/tailrace/auth"
)

// checkConfigured checks what a configuration grants to all clients of an authenticator.
func checkConfigured(scopes auth.Scope, sessions auth.Sessions, views []string) error {
	if s := sessions; !s.All && !s.Own && len(s.IDs) == 0 && s.Prefix == "" {
		return errors.New("Sessions is empty, want all, own ones, ids or a prefix")
	}
	return (&auth.Grant{Tenant: "t", Subject: "s", Scopes: scopes, Sessions: sessions, Views: views}).Check()
}

func isSubject(text string) bool { return (&auth.Grant{Tenant: "t", Subject: text}).Check() == nil }

func isTokenID(text string) bool {
	return text != "" && (&auth.Grant{Tenant: "t", Subject: "s", TokenID: text}).Check() == nil
}

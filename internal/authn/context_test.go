package authn

import (
	"testing"

	"github.com/tailrace/tailrace/auth"
)

func TestContext(t *testing.T) {
	if g, ok := FromContext(t.Context()); ok || g != nil {
		t.Errorf("got %v %t", g, ok)
	}
	want := &auth.Grant{Tenant: "acme"}
	if g, ok := FromContext(NewContext(t.Context(), want)); !ok || g != want {
		t.Errorf("got %v %t", g, ok)
	}
	if g, ok := FromContext(NewContext(t.Context(), nil)); ok || g != nil {
		t.Errorf("got %v %t for a nil Grant", g, ok)
	}
}

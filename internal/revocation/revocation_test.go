package revocation

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/tailrace/tailrace/chunk"
)

// FuzzDecode checks that what can be read belongs to its key, and is written in the same way again.
func FuzzDecode(f *testing.F) {
	issuer, at := "https://app.example", time.Unix(1_800_000_000, 5)
	for _, r := range []Revocation{
		{Tenant: "acme", TokenID: "t1", By: &chunk.Principal{Subject: "root", Issuer: &issuer}},
		{Tenant: "acme", Subject: "auth0|1 ä", Lifted: true},
	} {
		key, err := r.Key()
		if err != nil {
			f.Fatal(err)
		}
		data, err := r.Encode()
		if err != nil {
			f.Fatal(err)
		}
		r.At, r.Until = at, at.Add(Lifetime)
		if got, err := Decode(key, data, at); err != nil || !reflect.DeepEqual(got, r) {
			f.Errorf("got %+v, %v, want %+v", got, err, r)
		}
		f.Add(key, data)
	}
	f.Add("revoked.acme.token.x", []byte(`{"tenant":"acme","tokenId":"t1","subject":"s","later":1}`))
	f.Fuzz(func(t *testing.T, key string, data []byte) {
		r, err := Decode(key, data, at)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Errorf("the error is %v", err)
			}
			return
		}
		if own, err := r.Key(); err != nil || own != key {
			t.Errorf("the key is %q, %v, want %q", own, err, key)
		}
		again, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Decode(key, again, at); err != nil || !reflect.DeepEqual(back, r) {
			t.Errorf("got %+v, %v, want %+v", back, err, r)
		}
	})
}

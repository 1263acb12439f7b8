package outgoing

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
)

// A request and its headers reach the host that the URL names, and no other one.
func TestClientStaysAtItsOrigin(t *testing.T) {
	var reached atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer other.Close()
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/other":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/get":
			http.Redirect(w, r, "/end", http.StatusSeeOther)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusPermanentRedirect)
		case "/moved":
			http.Redirect(w, r, "/end", http.StatusPermanentRedirect)
		}
	}))
	defer own.Close()
	for path, want := range map[string]int{
		"/other": http.StatusTemporaryRedirect, "/get": http.StatusSeeOther, "/loop": http.StatusPermanentRedirect, "/moved": http.StatusOK,
	} {
		for name, client := range map[string]*http.Client{"the default": Client(nil), "a given one": Client(own.Client())} {
			res, err := client.Post(own.URL+path, "text/plain", strings.NewReader("secret"))
			if err != nil {
				t.Fatalf("%s, %s: %v", path, name, err)
			}
			_ = res.Body.Close() // it is empty
			if res.StatusCode != want {
				t.Errorf("%s, %s: status %d, want %d", path, name, res.StatusCode, want)
			}
		}
	}
	if n := reached.Load(); n > 0 {
		t.Errorf("the other host got %d requests", n)
	}
}

func TestClientRefusesLinkLocalAddresses(t *testing.T) {
	for _, host := range []string{"169.254.169.254", "[::ffff:169.254.169.254]", "[fe80::1]", "[fd00:ec2::254]"} {
		res, err := Client(nil).Post("http://"+host+"/latest/meta-data", "", nil)
		if err == nil {
			_ = res.Body.Close() // it is not read
		}
		if err == nil || !strings.Contains(err.Error(), "link-local") {
			t.Errorf("%s: %v, want the address refused", host, err)
		}
	}
}

func TestRestrictedRefusesOtherAddresses(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for name, c := range map[string]struct {
		client  *http.Client
		reaches bool
	}{"only loopback": {Restricted(netip.Addr.IsLoopback), true}, "only public": {Restricted(IsPublic), false}} {
		res, err := c.client.Get(server.URL)
		if err == nil {
			_ = res.Body.Close() // it is not read
		}
		if (err == nil) != c.reaches {
			t.Errorf("%s: %v", name, err)
		}
	}
	for text, want := range map[string]bool{
		"8.8.8.8": true, "2606:4700::1111": true, "127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "192.168.0.1": false, "100.64.0.1": false, "0.0.0.0": false,
		"0.1.2.3": false, "255.255.255.255": false, "224.0.0.1": false, "::1": false, "::": false, "fd00::1": false, "fe80::1": false, "::ffff:10.0.0.1": false,
		"::ffff:8.8.8.8": true, "64:ff9b::a00:1": false, "2002:a00:1::": false, "198.18.0.1": false, "240.0.0.1": false,
	} {
		if got := IsPublic(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is public: %t, want %t", text, got, want)
		}
	}
}

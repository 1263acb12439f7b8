package outgoing

import (
	"net/http"
	"net/http/httptest"
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

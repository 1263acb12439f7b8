package bench

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// A chat that loses, repeats or changes a token fails the benchmark.
func TestWrongTokenFailsTheBenchmark(t *testing.T) {
	for name, c := range map[string]struct {
		texts []string
		want  string
	}{
		"merged":       {[]string{token, token + token}, ""},
		"lost":         {[]string{token + token}, "before event 2 of 3"},
		"repeated":     {[]string{token + token, token + token}, `after token 3 of 3`},
		"another word": {[]string{token, "ward "}, `after token 1 of 3`},
		"half a word":  {[]string{"word wo", "rd word "}, `after token 1 of 3`},
	} {
		t.Run(name, func(t *testing.T) {
			site, err := serve(t.Context(), plainServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				out, err := stream(w)
				if err != nil {
					return
				}
				for _, text := range c.texts {
					fmt.Fprintf(w, "data: {\"type\":\"text-delta\",\"id\":\"t1\",\"delta\":%q}\n\n", text)
				}
				out.Flush()
				if c.want == "" {
					<-r.Context().Done() // a stream that ends before it is read counts as cut
				}
			})))
			if err != nil {
				t.Fatal(err)
			}
			defer site.close()
			_, err = loadClients(t.Context(), job{
				Addr: site.addr, Events: 3, Token: token, Burst: true, Repeat: 1, Groups: []group{{Path: "/", Clients: 2}},
			}, nil)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

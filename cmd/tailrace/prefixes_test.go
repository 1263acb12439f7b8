package main

import (
	"flag"
	"fmt"
	"strings"
	"testing"
)

func TestTrustedProxies(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "",
		"10.0.0.0/8":               "10.0.0.0/8",
		"10.0.0.0/8, 192.0.2.7":    "10.0.0.0/8,192.0.2.7/32",
		"fd00::/8,2001:db8::1":     "fd00::/8,2001:db8::1/128",
		"proxy.example":            "error",
		"10.0.0.0/33":              "error",
		"10.0.0.0/8,,192.0.2.7":    "error",
		"10.0.0.0/8 192.0.2.0/24":  "error",
		"10.0.0.0/8,192.0.2.0-255": "error",
	} {
		for way, read := range map[string]func() (config, error){
			"flag": func() (config, error) { return loaded([]string{"--trusted-proxies", text}) },
			"environment": func() (config, error) {
				t.Setenv("TAILRACE_TRUSTED_PROXIES", text)
				defer t.Setenv("TAILRACE_TRUSTED_PROXIES", "")
				return loaded(nil)
			},
		} {
			cfg, err := read()
			got := strings.Trim(strings.ReplaceAll(fmt.Sprint(cfg.TrustedProxies), " ", ","), "[]")
			if err != nil {
				got = "error"
			}
			if got != want {
				t.Errorf("%s %q: got %q (%v), want %q", way, text, got, err, want)
			}
			if err != nil && !strings.Contains(err.Error(), "192.0.2.7") {
				t.Errorf("%s %q: error %v does not name what it wants", way, text, err)
			}
		}
	}
}

func loaded(args []string) (config, error) {
	cfg, _, err := load(args, func(*flag.FlagSet) {})
	return cfg, err
}

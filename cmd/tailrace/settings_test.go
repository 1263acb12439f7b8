package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"reflect"
	"strings"
	"testing"
)

// settingTexts are values of some type of setting, and texts that are close to one.
var settingTexts = []string{
	"", " ", "0", "1", "-1", "+1", " 1", "1 ", "007", "08", "0x10", "0X10", "0b11", "0o17", "1_000", "1e3", "1.5", ".5", "-0.5", "0x1p-2", "inf", "NaN",
	"9223372036854775807", "9223372036854775808", "-9223372036854775808", "true", "TRUE", "True", "t", "T", "f", "false", "yes", "on", "off",
	"0s", "1s", "1.5h", "1h30m", "-2m", "+2m", "1 s", "1d", "1us", "1µs", "2562048h", "s", "debug", "INFO", "warn+1", "error", "fatal", "json", "JSON", "msgpack",
	"text", "a", "a,b", " a , b ", "a,,b", ",", "a:b", "unlimited", "20/60", "20/", "/60", "0.5/0x10", "10.0.0.0/8", "192.0.2.7, ::1", "10.0.0.0/33", "drop", "inline",
	"data", "nats://me:pw@h:4222", "%", "=", "--x", "ü",
}

// A variable and a flag accept the same texts and set the same value, for every type.
func TestVariablesAndFlagsAcceptTheSame(t *testing.T) {
	types := map[reflect.Type]int{} // how many texts they accept
	for i, s := range settingsOf(&config{}) {
		if _, tested := types[s.value.Type()]; tested {
			continue
		}
		types[s.value.Type()] = 0
		t.Run(s.variable, func(t *testing.T) {
			for _, text := range settingTexts {
				var byFlag, byVariable config
				flagErr := setByFlag(&byFlag, s, text)
				t.Setenv(s.variable, text)
				variableErr := readEnvironment(&byVariable)
				if (flagErr == nil) != (variableErr == nil) {
					t.Errorf("%q: the flag returns %v, the variable %v", text, flagErr, variableErr)
				}
				if flagErr != nil {
					continue
				}
				types[s.value.Type()]++
				got, want := settingsOf(&byFlag)[i].value.Interface(), settingsOf(&byVariable)[i].value.Interface()
				if fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) { // NaN is not equal to itself
					t.Errorf("%q: the flag sets %#v, the variable %#v", text, got, want)
				}
			}
		})
	}
	for typ, accepted := range types {
		if accepted < 2 {
			t.Errorf("%s: %d texts are accepted, want at least 2 in the table", typ, accepted)
		}
	}
}

func setByFlag(c *config, s setting, text string) error {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	set := registerSettings(flags, c)
	if err := flags.Parse([]string{"--" + s.flagName() + "=" + text}); err != nil {
		return err
	}
	return set()
}

// No error and no usage text has the text of a variable or of a flag, which may be a secret that is in the wrong one. A number that was parsed is named with its
// bounds, and a file that does not exist with its name.
func TestErrorsHaveNoValue(t *testing.T) {
	for _, s := range settingsOf(&config{}) {
		t.Run(s.variable, func(t *testing.T) {
			for _, value := range []string{"Secret1*", "Secret1", "733133773313377331337", "1h73313x", "a,,Secret1", "Secret1://Secret1", "1/Secret1", "1,Secret1"} {
				check := func(args ...string) {
					t.Helper()
					var out strings.Builder
					run(t.Context(), terminal{in: strings.NewReader(""), out: &out, err: &out}, append(args, "--help"))
					_, _, err := load(args[1:], nil)
					if errors.Is(err, fs.ErrNotExist) {
						return
					}
					if text := fmt.Sprint(out.String(), err); strings.Contains(text, "Secret1") || strings.Contains(text, "73313") {
						t.Errorf("%q: %s", value, text)
					}
				}
				check("edge", "--"+s.flagName()+"="+value)
				t.Setenv(s.variable, value)
				check("edge")
			}
		})
	}
}

// A configuration that is printed or logged has no password and no key.
func TestConfigIsPrintedWithoutSecrets(t *testing.T) {
	cfg, _, err := load([]string{"--nats-url", "nats://me:s3cr3t@h:4222", "--model-url", "https://s3cr3t@h/v1?key=s3cr3t", "--model-key", "s3cr3t", "--model", "m"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("started", "url", cfg.NATSURL, "model", cfg.ModelURL, "key", cfg.ModelKey)
	fmt.Fprintf(&log, "%v %+v %#v", cfg, cfg, cfg)
	if strings.Contains(log.String(), "s3cr3t") {
		t.Error(log.String())
	}
}

// A variable with the prefix that is not a setting is an error that names the nearest setting, unless Kubernetes derives it from a service.
func TestUnknownVariables(t *testing.T) {
	for variable, want := range map[string]string{
		"TAILRACE_HEARTBEET=s3cr3t":    "TAILRACE_HEARTBEET is not a setting; did you mean TAILRACE_HEARTBEAT?",
		"TAILRACE_NATSURL=":            "TAILRACE_NATSURL is not a setting; did you mean TAILRACE_NATS_URL?",
		"TAILRACE_MDEL=x":              "TAILRACE_MDEL is not a setting; did you mean TAILRACE_MODEL?",
		"TAILRACE_H2C=true":            "TAILRACE_H2C is not a setting; `tailrace help` lists them",
		"TAILRACE_HEARTBEAT_DELAY=1s":  "TAILRACE_HEARTBEAT_DELAY is not a setting; `tailrace help` lists them",
		"TAILRACE_SERVICE=x":           "TAILRACE_SERVICE is not a setting; `tailrace help` lists them",
		"TAILRACE_EDGE_PORT_HTTP=4480": "TAILRACE_EDGE_PORT_HTTP is not a setting; `tailrace help` lists them",

		"TAILRACE_URLS=x":                  "TAILRACE_URLS is not a setting; `tailrace help` lists them",
		"TAILRACE_URL=http://edge.example": "", // of the clients in Python and TypeScript
		"TAILRACE_BIN=x":                   "",
		"TAILRACE_TOKEN=x":                 "",
		"TAILRACE_SINK_TO=x":               "", // of tailrace-sink

		"TAILRACE=x":                              "",
		"TAILRACES=x":                             "",
		"MY_TAILRACE_HEARTBEAT=x":                 "",
		"HEARTBEAT=x":                             "",
		"TAILRACE_HEARTBEAT=x":                    "",
		"TAILRACE_PORT=tcp://10.0.0.1:80":         "",
		"TAILRACE_SERVICE_HOST=10.0.0.1":          "",
		"TAILRACE_EDGE_SERVICE_HOST=10.0.0.1":     "",
		"TAILRACE_EDGE_SERVICE_PORT=4480":         "",
		"TAILRACE_EDGE_SERVICE_PORT_HTTP=4480":    "",
		"TAILRACE_EDGE_PORT=tcp://10.0.0.1:4480":  "",
		"TAILRACE_EDGE_PORT_4480_TCP=tcp://x":     "",
		"TAILRACE_EDGE_PORT_4480_TCP_PROTO=tcp":   "",
		"TAILRACE_EDGE_PORT_4480_TCP_PORT=4480":   "",
		"TAILRACE_EDGE_PORT_4480_TCP_ADDR=10.0.0": "",
	} {
		err := checkVariables([]string{"PATH=/bin", variable})
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && got != want {
			t.Errorf("%s: %s, want %q", variable, got, want)
		}
	}
	t.Setenv("TAILRACE_MAX_STREAM", "1")
	var out strings.Builder
	code := run(t.Context(), terminal{in: strings.NewReader(""), out: &out, err: &out}, []string{"edge"})
	if want := "tailrace edge: TAILRACE_MAX_STREAM is not a setting; did you mean TAILRACE_MAX_STREAMS?\n"; code != exitUsage || out.String() != want {
		t.Errorf("exit code %d, %q, want %q", code, out.String(), want)
	}
}

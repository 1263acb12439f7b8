package main

import (
	"strings"
	"testing"
	"time"
)

// An old name of a setting is read and logged once; the new name wins.
func TestRenamedSettings(t *testing.T) {
	const (
		oldEnv, newEnv   = "TAILRACE_PATIENCE", "TAILRACE_RETRY_TIMEOUT"
		oldFlag, newFlag = "--patience", "--retry-timeout"
	)
	for name, tt := range map[string]struct {
		env  map[string]string
		args []string
		want time.Duration
		log  string // the names in the one line of the log; "" for none
	}{
		"default":             {nil, nil, 30 * time.Second, ""},
		"new variable":        {map[string]string{newEnv: "2s"}, nil, 2 * time.Second, ""},
		"old variable":        {map[string]string{oldEnv: "3s"}, nil, 3 * time.Second, "name=" + oldEnv + " use=" + newEnv},
		"both variables":      {map[string]string{oldEnv: "3s", newEnv: "2s"}, nil, 2 * time.Second, "name=" + oldEnv + " use=" + newEnv},
		"old flag":            {nil, []string{oldFlag, "4s"}, 4 * time.Second, "name=" + oldFlag + " use=" + newFlag},
		"both flags":          {nil, []string{newFlag, "5s", oldFlag, "4s"}, 5 * time.Second, "name=" + oldFlag + " use=" + newFlag},
		"old flag, variable":  {map[string]string{newEnv: "2s"}, []string{oldFlag, "4s"}, 4 * time.Second, "name=" + oldFlag + " use=" + newFlag},
		"new flag, old one":   {map[string]string{oldEnv: "3s"}, []string{newFlag, "5s"}, 5 * time.Second, "name=" + oldEnv + " use=" + newEnv},
		"equals sign":         {nil, []string{oldFlag + "=4s"}, 4 * time.Second, "name=" + oldFlag + " use=" + newFlag},
		"the other one alone": {map[string]string{"TAILRACE_MODEL_SILENCE": "7s"}, nil, 30 * time.Second, "name=TAILRACE_MODEL_SILENCE use=TAILRACE_MODEL_IDLE_TIMEOUT"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range tt.env {
				t.Setenv(variable, value)
			}
			var log strings.Builder
			cfg, _, err := load(tt.args, &log, nil)
			if err != nil {
				t.Fatal(err)
			}
			if cfg.RetryTimeout != tt.want {
				t.Errorf("got %s, want %s", cfg.RetryTimeout, tt.want)
			}
			if _, other := tt.env["TAILRACE_MODEL_SILENCE"]; other && cfg.ModelIdleTimeout != 7*time.Second {
				t.Errorf("model-idle-timeout is %s, want 7s", cfg.ModelIdleTimeout)
			}
			lines := map[bool]int{true: 1}[tt.log != ""]
			if strings.Count(log.String(), "\n") != lines || strings.Count(log.String(), "deprecated") != lines || !strings.Contains(log.String(), tt.log) {
				t.Errorf("logged %q, want %q", log.String(), tt.log)
			}
		})
	}
}

func TestRenamedSettingsRejectInvalidValues(t *testing.T) {
	if _, _, err := load([]string{"--patience", "soon"}, &strings.Builder{}, nil); err == nil || !strings.Contains(err.Error(), "-patience") {
		t.Errorf("flag: err = %v, want one that names it", err)
	}
	t.Setenv("TAILRACE_PATIENCE", "soon")
	if _, _, err := load(nil, &strings.Builder{}, nil); err == nil || !strings.Contains(err.Error(), "TAILRACE_PATIENCE") {
		t.Errorf("variable: err = %v, want one that names it", err)
	}
}

// Every old name leads to a setting or a command that exists, and is not shown in the help.
func TestRenamedNamesExist(t *testing.T) {
	var help strings.Builder
	if err := printHelp(&help); err != nil {
		t.Fatal(err)
	}
	settings := map[string]bool{}
	for _, f := range fieldsOf(&config{}) {
		settings[f.env] = true
	}
	for old, renamed := range renamedSettings {
		if settings[old] || !settings[renamed] || strings.Contains(help.String(), "TAILRACE_"+old+" ") {
			t.Errorf("%s, %s: want an old name that is hidden and a new one that exists", old, renamed)
		}
	}
	commands := map[string]bool{}
	for _, c := range subcommands() {
		commands[c.name] = true
	}
	for old, renamed := range renamedCommands {
		if commands[old] || !commands[renamed] {
			t.Errorf("%s, %s: want an old name that is hidden and a new one that exists", old, renamed)
		}
	}
}

func TestRenamedCommand(t *testing.T) {
	var out, errs strings.Builder
	code := run(t.Context(), terminal{in: strings.NewReader(""), out: &out, err: &errs}, []string{"compact", "--help"})
	if code != exitOK || !strings.Contains(out.String(), "Usage: tailrace archive") {
		t.Errorf("exit code %d, %s", code, out.String())
	}
	if want := "tailrace: command \"compact\" is deprecated, use \"archive\"\n"; errs.String() != want {
		t.Errorf("standard error is %q, want %q", errs.String(), want)
	}
	errs.Reset()
	if code := run(t.Context(), terminal{in: strings.NewReader(""), out: &out, err: &errs}, []string{"archive", "--help"}); code != exitOK || errs.String() != "" {
		t.Errorf("archive: exit code %d, %q", code, errs.String())
	}
}

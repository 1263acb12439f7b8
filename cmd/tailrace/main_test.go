package main

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tailrace/tailrace/internal/testkit/natstest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// commandVariable makes the test binary a tailrace command, for tests that kill one.
const commandVariable = "TRTEST_TAILRACE_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(commandVariable) != "" {
		main()
	}
	natstest.Main(m)
}

func TestFlagsWinOverTheEnvironment(t *testing.T) {
	t.Setenv("TAILRACE_HEARTBEAT", "3s")
	t.Setenv("TAILRACE_REPLICAS", "3")
	cfg, rest, err := load([]string{"s1", "--heartbeat", "4s", "--demo", "off", "s2"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Heartbeat != 4*time.Second || cfg.Replicas != 3 || cfg.Demo.on {
		t.Errorf("heartbeat %s, replicas %d, demo %v", cfg.Heartbeat, cfg.Replicas, cfg.Demo)
	}
	if strings.Join(rest, " ") != "s1 s2" {
		t.Errorf("arguments %q, want s1 and s2", rest)
	}
}

func TestInvalidSettingsAreNamed(t *testing.T) {
	for want, args := range map[string][]string{
		"replicas is 2":    {"--replicas", "2"},
		"partitions is 0":  {"--partitions", "0"},
		"Partitions is 65": {"--partitions", "65"},
		"log-format: want": {"--log-format", "xml"},
		"heartbeat is 0s":  {"--heartbeat", "0s"},
		"tenant":           {"--tenant", "a.b"},
		"want json":        {"--format", "xml"},
		"want a duration":  {"--max-age", "soon"},
		"--demo: want":     {"--demo", "-1"},
		"there is no flag --no-such-flag; --help lists":    {"--no-such-flag"},
		"there is no flag --lisen; did you mean --listen?": {"s1", "--lisen=Secret1"},
	} {
		_, _, err := load(args, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: err = %v, want one with %q", args, err, want)
		}
	}
	t.Setenv("TAILRACE_DRAIN", "later")
	if _, _, err := load(nil, nil); err == nil || !strings.Contains(err.Error(), "DRAIN") {
		t.Errorf("invalid variable: err = %v, want one that names it", err)
	}
}

// Only variables with the prefix are settings: LISTEN of another program on the same machine does not move the edge. A variable that is set but empty replaces
// the default.
func TestEnvironment(t *testing.T) {
	t.Setenv("LISTEN", "0.0.0.0:1")
	t.Setenv("TAILRACE_LISTEN", "127.0.0.1:0")
	t.Setenv("TAILRACE_CHAT_AGENT", "")
	t.Setenv("TAILRACE_PARTITIONS", "0x10")
	t.Setenv("TAILRACE_NATS_URL", "nats://a:4222")
	cfg, _, err := load([]string{"--nats-url", "nats://b:4222", "--max-streams", "0x20"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen != "127.0.0.1:0" || len(cfg.ChatAgents) != 0 || cfg.Partitions != 16 || cfg.NATSURL != "nats://b:4222" || cfg.MaxStreams != 32 || cfg.Replicas != 1 {
		t.Errorf("settings %+v", cfg)
	}
}

// Every setting has a flag, a variable and a line of help with a description.
func TestEverySettingIsExplained(t *testing.T) {
	var help strings.Builder
	if err := printHelp(&help); err != nil {
		t.Fatal(err)
	}
	for _, f := range settingsOf(&config{}) {
		if f.desc == "" || !strings.Contains(help.String(), f.variable+" ") {
			t.Errorf("%s is not explained", f.variable)
		}
	}
	for _, c := range subcommands() {
		var out, errs strings.Builder
		if code := run(t.Context(), terminal{in: strings.NewReader(""), out: &out, err: &errs}, []string{c.name, "--help"}); c.name != "version" && (code != exitOK || !strings.Contains(out.String(), "Usage: tailrace "+c.name)) {
			t.Errorf("%s --help: exit %d: %s%s", c.name, code, out.String(), errs.String())
		}
		for variable, commands := range map[string]string{
			"NATS_URL":  "up setup epoch doctor edge projector worker publish sessions snapshot open tail firehose audit usage fork verify rebuild deadletters revoke",
			"LISTEN":    "up edge open",
			"AUTH":      "up edge token",
			"VIEWS":     "up edge firehose",
			"MODEL":     "up edge worker",
			"DATA_DIR":  "up",
			"STREAMS":   "up setup",
			"PARTITION": "",
		} {
			if has := strings.Contains(out.String(), "  TAILRACE_"+variable+" "); has != slices.Contains(strings.Fields(commands), c.name) {
				t.Errorf("%s --help has TAILRACE_%s: %t", c.name, variable, has)
			}
		}
	}
	for _, s := range settingsOf(&config{}) {
		for _, name := range s.of {
			if name != "nats" && !slices.ContainsFunc(subcommands(), func(c command) bool { return c.name == name }) {
				t.Errorf("%s is a setting of %q, want a command", s.variable, name)
			}
		}
		if len(s.of) == 0 {
			t.Errorf("%s is a setting of no command", s.variable)
		}
	}
}

// Control sequences in the text of an agent do not reach the terminal.
func TestTextPrinterRemovesControlSequences(t *testing.T) {
	if got, want := printable("a\x1b[2Jb\u009bc\r\nd\te\x00"), "a[2Jbc\nd\te"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

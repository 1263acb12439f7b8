package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/kelseyhightower/envconfig"

	"github.com/tailrace/tailrace/internal/nearest"
)

// config is every setting. A field is a variable, which envconfig reads, and a flag that overrides it: --to for TAILRACE_SINK_TO, --nats-url for TAILRACE_NATS_URL.
// Settings without SINK are those of the other roles.
type config struct {
	To     string        `envconfig:"TAILRACE_SINK_TO" default:"./lake" desc:"store: a directory of Parquet files, s3://bucket/prefix?endpoint=URL&region=R with the keys of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or postgres://user@host/database with the password of PGPASSWORD; or a receiver: otlp+http://host:4318 or otlp+https://host/path for traces, with the headers of OTEL_EXPORTER_OTLP_HEADERS, or webhook+https://host/path"`
	Name   string        `envconfig:"TAILRACE_SINK_NAME" desc:"name of the position in a Postgres database, or of the durable consumers sink-NAME of a receiver; two sinks with the same name are replicas, which share the work; if empty, default, and for a receiver otlp or webhook"`
	Tenant string        `envconfig:"TAILRACE_SINK_TENANT" desc:"sessions of this tenant only; if empty, of all tenants"`
	From   string        `envconfig:"TAILRACE_SINK_FROM" default:"start" desc:"where a store without a position begins: start, the oldest record of the log, or now"`
	View   string        `envconfig:"TAILRACE_SINK_VIEW" desc:"content of the rows; if empty, analytics, and for a receiver none: analytics (text of users and answers; no reasoning, arguments and results of tools are masked), none, all, or the name of a view in the file of VIEWS"`
	Deltas bool          `envconfig:"TAILRACE_SINK_DELTAS" default:"false" desc:"also write the pieces of text, reasoning and arguments as rows of events: over 90 % of the records"`
	Every  time.Duration `envconfig:"TAILRACE_SINK_EVERY" desc:"age at which rows are stored; if empty, 1m for Parquet and 1s for Postgres"`
	Bytes  int           `envconfig:"TAILRACE_SINK_BYTES" desc:"size at which rows are stored before that age; if empty, 32 MiB for Parquet, divided by the number of partitions, and 8 MiB for Postgres"`
	Memory int           `envconfig:"TAILRACE_SINK_MEMORY" default:"100663296" desc:"bytes of the state of open sessions; those that do not fit are read from the log again when they continue"`
	Prices string        `envconfig:"TAILRACE_SINK_PRICES" desc:"JSON file of prices of models (docs/guides/analytics.md), in the form of Tailrace or of LiteLLM; without it, the cost is what providers report"`
	Keep   time.Duration `envconfig:"TAILRACE_SINK_KEEP" default:"0s" desc:"age at which rows of a store are deleted; 0s keeps them"`

	GiveUp      time.Duration `envconfig:"TAILRACE_SINK_GIVE_UP" default:"24h" desc:"time for which what a receiver does not accept is sent again; then it is a dead letter"`
	DeadLetters string        `envconfig:"TAILRACE_SINK_DEAD_LETTERS" desc:"file to which a line of JSON is added for what a receiver has not accepted, without content; if empty, it is only counted"`
	Secret      secret        `envconfig:"TAILRACE_SINK_SECRET" desc:"secret that signs webhooks, whsec_ and 24 to 64 bytes in base64, or a file that has it; during a rotation two, with a comma between"`
	Private     bool          `envconfig:"TAILRACE_SINK_PRIVATE" default:"false" desc:"send webhooks also to private addresses, and without TLS"`

	NATSURL     secretURL  `envconfig:"TAILRACE_NATS_URL" desc:"URL of the NATS server; if empty, that of NATS_CONTEXT; without both, the server of 'tailrace up' on this host"`
	NATSCreds   string     `envconfig:"TAILRACE_NATS_CREDS" desc:"NATS credentials file (user JWT and seed) of the role analytics"`
	NATSNkey    string     `envconfig:"TAILRACE_NATS_NKEY" desc:"file with the seed of the NATS user's nkey"`
	NATSContext string     `envconfig:"TAILRACE_NATS_CONTEXT" desc:"context of the nats CLI, by name or as the path of its file"`
	Prefix      string     `envconfig:"TAILRACE_PREFIX" default:"tr" desc:"first token of every subject, and prefix of stream names"`
	Views       string     `envconfig:"TAILRACE_VIEWS" desc:"JSON file of audience views"`
	OpsListen   string     `envconfig:"TAILRACE_OPS_LISTEN" default:"127.0.0.1:4484" desc:"address of probes and metrics; empty disables"`
	LogLevel    slog.Level `envconfig:"TAILRACE_LOG_LEVEL" default:"info" desc:"debug, info, warn or error"`
	LogFormat   string     `envconfig:"TAILRACE_LOG_FORMAT" default:"text" desc:"text or json"`

	noFollow bool // the command ends by itself: check, erase, and that with --no-follow
}

// secret is a setting that is not logged.
type secret string

// LogValue hides it.
func (secret) LogValue() slog.Value { return slog.StringValue("***") }

// secretURL is a URL that may have a password.
type secretURL string

// LogValue hides the password.
func (u secretURL) LogValue() slog.Value { return slog.StringValue(withoutPassword(string(u))) }

const (
	settingPrefix = "TAILRACE_"
	sinkPrefix    = "TAILRACE_SINK_"
)

// setting is one field of the config.
type setting struct{ variable, flag, def, desc string }

func settings() (all []setting) {
	for f := range reflect.TypeFor[config]().Fields() {
		if f.IsExported() {
			variable := f.Tag.Get("envconfig")
			name := strings.TrimPrefix(strings.TrimPrefix(variable, settingPrefix), "SINK_")
			all = append(all, setting{variable, strings.ReplaceAll(strings.ToLower(name), "_", "-"), f.Tag.Get("default"), f.Tag.Get("desc")})
		}
	}
	return all
}

// load reads the environment and the flags, with those that a command adds. A flag sets the variable of its setting, so both have one parser. It also returns the
// arguments after the flags.
func load(args []string, add func(*flag.FlagSet)) (cfg config, rest []string, err error) {
	if err := checkVariables(os.Environ()); err != nil {
		return cfg, nil, err
	}
	flags := flag.NewFlagSet("tailrace-sink", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	add(flags)
	for _, s := range settings() {
		set := func(text string) error { return os.Setenv(s.variable, text) }
		if s.flag == "deltas" || s.flag == "private" {
			flags.BoolFunc(s.flag, s.desc, set)
			continue
		}
		flags.Func(s.flag, s.desc, set)
	}
	if err := flags.Parse(args); err != nil {
		return cfg, nil, err
	}
	err = envconfig.Process("", &cfg)
	if parse, ok := errors.AsType[*envconfig.ParseError](err); ok { // its own text has the value, which may be a secret
		want := "a value of the type " + parse.TypeName
		if parse.TypeName == "time.Duration" {
			want = "a duration, such as 90s or 168h"
		}
		err = fmt.Errorf("%s: want %s", parse.KeyName, want)
	}
	cfg = cfg.withDefaults()
	if err == nil {
		err = cfg.validate()
	}
	return cfg, flags.Args(), err
}

func (c config) validate() error {
	switch {
	case c.To == "":
		return errors.New("to is empty, want a store or a receiver")
	case c.From != "start" && c.From != "now":
		return fmt.Errorf("from is %q, want start or now", c.From)
	case c.LogFormat != "text" && c.LogFormat != "json":
		return errors.New("log-format: want text or json")
	case c.Every < 0 || c.Bytes < 0 || c.Memory < 1<<20 || c.Keep < 0:
		return errors.New("want an every, bytes and keep of 0 or more, and a memory of 1 MiB or more")
	case c.GiveUp <= 0:
		return errors.New("give-up: want more than 0")
	case c.NATSNkey != "" && c.NATSCreds != "":
		return errors.New("nats-nkey and nats-creds are both set, want one")
	}
	return nil
}

// checkVariables returns an error for a variable with the prefix of the sink that names an unknown setting.
func checkVariables(environ []string) error {
	known := map[string]bool{}
	var short []string
	for _, s := range settings() {
		known[s.variable] = true
		short = append(short, strings.TrimPrefix(s.variable, settingPrefix))
	}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, sinkPrefix) || known[name] {
			continue
		}
		if near := nearest.Name(strings.TrimPrefix(name, settingPrefix), short); near != "" {
			return fmt.Errorf("%s: unknown setting, the nearest is %s%s", name, settingPrefix, near)
		}
		return fmt.Errorf("%s: unknown setting", name)
	}
	return nil
}

const usage = `tailrace-sink copies the records of a Tailrace log into tables, each once, or sends what agents did as traces (OTLP) or webhooks, at least once.

  tailrace-sink [flags]                    copy, and follow the log
  tailrace-sink --no-follow [flags]        copy what the log has now, and end; exit code 3 without a NATS server
  tailrace-sink sql duckdb|postgres        print the views over the tables
  tailrace-sink check [--json] [flags]     print what the store has by partition; exit code 1 if it has sessions that are deleted
  tailrace-sink erase --tenant T --root R [--session S] [flags]
                                           erase the rows of a tree, or of one of its sessions
  tailrace-sink erase --deleted [flags]    erase the sessions that check counts as deleted or absent

Settings are variables or flags; docs/guides/analytics.md has the tables.

`

func printUsage(w io.Writer) error {
	var b strings.Builder
	b.WriteString(usage)
	for _, s := range settings() {
		fmt.Fprintf(&b, "  --%s, %s", s.flag, s.variable)
		if s.def != "" {
			fmt.Fprintf(&b, " (%s)", s.def)
		}
		fmt.Fprintf(&b, "\n        %s\n", s.desc)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"slices"
)

// renamedSettings has the settings whose old name is read for one release, as the new name of the variable. The new name wins over the old one.
var renamedSettings = map[string]string{
	"PATIENCE":      "RETRY_TIMEOUT",
	"MODEL_SILENCE": "MODEL_IDLE_TIMEOUT",
}

// renamedCommands has the commands whose old name is accepted for one release.
var renamedCommands = map[string]string{"compact": "archive"}

// deprecated holds the old names that a process was started with.
type deprecated struct {
	variables []string          // of renamedSettings
	flags     map[string]string // the value of a flag, by the old name of the variable
}

// readDeprecated sets the settings whose variable is set by its old name alone.
func readDeprecated(c *config) (*deprecated, error) {
	d := &deprecated{flags: map[string]string{}}
	for _, f := range fieldsOf(c) {
		for old, renamed := range renamedSettings {
			value, set := os.LookupEnv(envPrefix + "_" + old)
			if renamed != f.env || !set {
				continue
			}
			d.variables = append(d.variables, old)
			if _, set := os.LookupEnv(envPrefix + "_" + renamed); set {
				continue
			}
			if err := f.Set(value); err != nil {
				return nil, fmt.Errorf("environment: %s_%s: %w", envPrefix, old, err)
			}
		}
	}
	slices.Sort(d.variables)
	return d, nil
}

// register accepts the old names as flags.
func (d *deprecated) register(flags *flag.FlagSet) {
	for old := range renamedSettings {
		flags.Func(field{env: old}.flagName(), "deprecated", func(value string) error {
			d.flags[old] = value
			return nil
		})
	}
}

// apply sets the settings whose flag was given by its old name alone.
func (d *deprecated) apply(c *config, flags *flag.FlagSet) error {
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, f := range fieldsOf(c) {
		if given[f.flagName()] {
			continue
		}
		for old, value := range d.flags {
			if renamedSettings[old] != f.env {
				continue
			}
			if err := f.Set(value); err != nil {
				return fmt.Errorf("invalid value %q for flag -%s: %w", value, field{env: old}.flagName(), err)
			}
		}
	}
	return nil
}

// log writes a line for each old name that was used.
func (d *deprecated) log(log *slog.Logger) {
	for _, old := range d.variables {
		log.Warn("setting deprecated", "name", envPrefix+"_"+old, "use", envPrefix+"_"+renamedSettings[old])
	}
	for old := range d.flags {
		log.Warn("flag deprecated", "name", "--"+field{env: old}.flagName(), "use", "--"+field{env: renamedSettings[old]}.flagName())
	}
}

package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Seconds is the value of a flag: a number of seconds, as flock has it, or a duration of Go's.
type Seconds time.Duration

// SecondsVar defines a flag for d, which is the default until it is given.
func SecondsVar(flags *pflag.FlagSet, d *time.Duration, name string, value time.Duration, usage string) {
	*d = value
	flags.Var((*Seconds)(d), name, usage)
}

// Set takes the value in.
func (s *Seconds) Set(text string) error {
	d, err := time.ParseDuration(text)
	if n, bad := strconv.ParseFloat(text, 64); bad == nil && math.Abs(n) < math.MaxInt64/float64(time.Second)/2 {
		d, err = time.Duration(n*float64(time.Second)), nil
	}
	if err != nil || d < 0 {
		return errors.New("must be a number of seconds, not below 0, or a time such as 1m30s")
	}
	*s = Seconds(d)
	return nil
}

// String is the value as help shows a default; "" for none.
func (s *Seconds) String() string {
	if *s <= 0 {
		return ""
	}
	return time.Duration(*s).String()
}

// Type is what help calls the value.
func (s *Seconds) Type() string { return "seconds" }

// A choice is the value of a flag that takes only the words allowed, and its default.
type choice struct {
	pflag.Value
	standard string
	allowed  []string
}

func (c choice) Set(text string) error {
	words := []string{text}
	if c.Type() == "stringSlice" {
		words = strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
	}
	for _, word := range words {
		if word != c.standard && !slices.Contains(c.allowed, word) {
			return fmt.Errorf("must be of %s", strings.Join(c.allowed, ", "))
		}
	}
	return c.Value.Set(text)
}

// Choose makes a flag take only the words allowed, and completes them for a shell.
func Choose(cmd *cobra.Command, name string, allowed []string) {
	flag := cmd.Flags().Lookup(name)
	flag.DefValue = strings.TrimSuffix(flag.DefValue, "[]") // an empty list, which help would show
	flag.Value = choice{flag.Value, flag.DefValue, allowed}
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
}

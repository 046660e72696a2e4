package cli

import (
	"embed"
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
	*s = Seconds(min(d, math.MaxInt64/4)) // so that sums and small multiples of it are times as well
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

// Topics makes the commands "help" and "completion" refuse topics that do not exist.
func Topics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"})
	completion.Args, completion.RunE = cobra.NoArgs, Help
	help, _, _ := root.Find([]string{"help"})
	shows := help.Run
	help.Run = nil
	help.RunE = func(cmd *cobra.Command, args []string) error {
		if found, rest, err := root.Find(args); err != nil || found == nil || len(rest) > 0 {
			return Usagef("there is no help for %q; see 'holdfast --help'", strings.Join(args, " "))
		}
		shows(cmd, args)
		return nil
	}
}

// Help is what a command does that has only commands below it.
func Help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// texts are the help texts of the commands, with their examples.
//
//go:embed help/*.txt
var texts embed.FS

// Layout gives the command, and those below it, their help texts, which fit the narrowest terminal in use.
func Layout(cmd *cobra.Command) {
	cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), "Flags.FlagUsages ", "Flags.FlagUsagesWrapped 80 "))
	file := strings.ReplaceAll(strings.TrimPrefix(cmd.CommandPath(), "holdfast "), " ", "-")
	if text, err := texts.ReadFile("help/" + file + ".txt"); err == nil {
		cmd.Long, cmd.Example, _ = strings.Cut(strings.TrimRight(string(text), "\n"), "\n\nExamples:\n")
	}
	for _, below := range cmd.Commands() {
		Layout(below)
	}
}

// Wrapped breaks a text anew into lines of at most width bytes, except where a word is longer.
func Wrapped(text string, width int) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return strings.Join(append(lines, line), "\n")
}

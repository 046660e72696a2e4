package cli

import (
	"embed"
	"strings"

	"github.com/spf13/cobra"
)

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

// Wrapped breaks a text anew into lines of at most so many bytes, but for words that are longer.
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

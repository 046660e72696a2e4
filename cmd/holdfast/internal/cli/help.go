package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// width is that of help texts, which fit the narrowest terminal in use.
const width = 80

// Topics has the commands "help" and "completion" refuse what there is no help or completion of.
func Topics(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			shows := cmd.Run
			cmd.Run = nil
			cmd.RunE = func(cmd *cobra.Command, args []string) error {
				if found, rest, err := root.Find(args); err != nil || found == nil || len(rest) > 0 {
					return Usagef("there is no help for %q; see 'holdfast --help'", strings.Join(args, " "))
				}
				shows(cmd, args)
				return nil
			}
		case "completion":
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
			cmd.Args = func(_ *cobra.Command, args []string) error {
				if len(args) > 0 {
					return Usagef("there is no completion for %q; see 'holdfast completion --help'", args[0])
				}
				return nil
			}
		}
	}
}

// Layout makes the help of the command, and of those below it, as wide as a terminal.
func Layout(root *cobra.Command) {
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ", "Flags.FlagUsagesWrapped 80 "))
	layOut(root)
}

func layOut(cmd *cobra.Command) {
	cmd.Long = wrap(cmd.Long)
	for _, below := range cmd.Commands() {
		layOut(below)
	}
}

// wrap breaks paragraphs anew where a line is too wide. Lines that begin with a space stand as they are.
func wrap(text string) string {
	var out, paragraph []string
	flush := func() {
		defer func() { paragraph = nil }()
		if !slices.ContainsFunc(paragraph, func(line string) bool { return len(line) > width }) {
			out = append(out, paragraph...)
			return
		}
		out = append(out, Wrapped(strings.Join(paragraph, " "), width))
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || strings.HasPrefix(line, " ") {
			flush()
			out = append(out, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	flush()
	return strings.Join(out, "\n")
}

// Wrapped breaks a text anew into lines of at most so many bytes, but for words that are longer.
func Wrapped(text string, width int) string {
	var b strings.Builder
	at := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i > 0 && at+1+len(word) > width:
			b.WriteByte('\n')
			at = 0
		case i > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}

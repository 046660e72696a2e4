package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// codes is what docs/command.md has as a table, and holdfast help exit-codes prints.
var codes = []struct {
	code    int
	meaning string
}{
	{ExitOK, "done; of run: the command ended with 0"},
	{ExitNo, "the answer is no: taken (run: or what -E says), not there, failed"},
	{ExitUsage, "called wrongly; nothing was done"},
	{ExitUnavailable, "Redis cannot be reached or refuses, or the command cannot be run"},
	{ExitSoftware, "a mistake in holdfast itself"},
	{ExitTempFail, "the connection was lost under way: whether it was done is not known"},
	{ExitLost, "run: the lock was lost while the command ran"},
	{ExitSignal, "and a signal's number: it ended holdfast, or the command that it ran"},
}

// codeText is a code as it is written: the last one has a number added.
func codeText(code int) string {
	if code == ExitSignal {
		return strconv.Itoa(code) + "+n"
	}
	return strconv.Itoa(code)
}

// ExitCodes is the help topic "exit-codes".
func ExitCodes() *cobra.Command {
	var text strings.Builder
	text.WriteString("The exit status of holdfast. That of run is otherwise the command's.\n\n")
	for _, c := range codes {
		fmt.Fprintf(&text, "  %-6s %s\n", codeText(c.code), c.meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "What the exit status says", Long: strings.TrimRight(text.String(), "\n")}
}

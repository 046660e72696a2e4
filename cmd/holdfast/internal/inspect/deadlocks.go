package inspect

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/survey"
)

func deadlocksCommand(redis *cli.Redis) *cobra.Command {
	var json bool
	cmd := &cobra.Command{
		Use: "deadlocks", Short: "Show which calls wait for each other", Args: cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onServer(cmd.Context(), redis, impatient, func(client rueidis.Client) error {
				found, err := survey.Deadlocks(cmd.Context(), client)
				if err != nil {
					return err
				}
				if !json {
					return report(found, deadlockText, "no calls wait for each other\n")
				}
				return report(found, deadlockJSON, "")
			})
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "print JSON, an object a line")
	return cmd
}

// report prints deadlocks, or that there are none, and ends with the answer no if there are any for certain.
func report(found []*survey.Deadlock, text func(*survey.Deadlock) string, none string) error {
	var b strings.Builder
	certain := false
	for _, d := range found {
		certain = certain || !d.Perhaps
		b.WriteString(text(d))
	}
	if len(found) == 0 {
		b.WriteString(none)
	}
	if _, err := os.Stdout.WriteString(b.String()); err != nil {
		return cli.Exit(cli.ExitNo, err)
	}
	if certain {
		return cli.Silent(cli.ExitNo)
	}
	return nil
}

func deadlockJSON(d *survey.Deadlock) string {
	var b strings.Builder
	_ = cli.WriteJSON(&b, d) // never fails
	return b.String()
}

// deadlockText tells a person.
func deadlockText(d *survey.Deadlock) string {
	name := func(w *survey.Blocked) string { return who(&survey.Party{ID: w.Session, Process: w.Process}) }
	if d.Perhaps {
		w := d.Waits[0]
		return fmt.Sprintf("perhaps: %s waits for %s, which it holds itself: another goroutine, or a nested call that "+
			"was not given the hold's context\n", name(w), cli.Safe(w.Name))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "deadlock since %s:\n", d.Since.Local().Format(time.DateTime))
	for i, w := range d.Waits {
		next := d.Waits[(i+1)%len(d.Waits)]
		fmt.Fprintf(&b, "  %s waits for %s %s, which %s has, as %s\n",
			name(w), w.Kind, cli.Safe(w.Name), name(next), cli.Safe(w.Owner))
	}
	return b.String()
}

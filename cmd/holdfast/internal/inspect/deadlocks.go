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
				var b strings.Builder
				certain := false
				for _, d := range found {
					certain = certain || !d.Perhaps
					if json {
						_ = cli.WriteJSON(&b, d) // never fails
					} else {
						b.WriteString(deadlockText(d))
					}
				}
				if len(found) == 0 && !json {
					b.WriteString("no calls wait for each other\n")
				}
				if _, err := os.Stdout.WriteString(b.String()); err != nil || !certain {
					return cli.Exit(cli.ExitNo, err)
				}
				return cli.Silent(cli.ExitNo) // what is certain is the answer no
			})
		},
	}
	cmd.Flags().BoolVar(&json, "json", false, "print JSON, an object a line")
	return cmd
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

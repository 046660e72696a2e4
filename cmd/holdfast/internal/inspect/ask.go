package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/rlock"
)

func askCommand(redis *cli.Redis) *cobra.Command {
	return onName(redis, "ask NAME", "Ask the holder of a lock for it", func(ctx context.Context, name string) error {
		return onServer(ctx, redis, impatient, func(client rueidis.Client) error { return ask(ctx, client, name) })
	})
}

// ask asks the holders, and says how many clients listen for that. The answer is no if nobody hears of it.
func ask(ctx context.Context, client rueidis.Client, name string) error {
	s, err := holdfast.NewSession(client, &holdfast.Options{Anonymous: true})
	if err != nil {
		return err
	}
	defer s.Close()
	holders, err := rlock.New(s, name, nil).Ask(ctx) // locks of all kinds are asked in the same way
	switch {
	case errors.Is(err, holdfast.ErrWrongKind):
		return cli.Exit(cli.ExitUsage, err)
	case err != nil:
		return err
	}
	note := wire.Asked(name)
	listening, known := survey.Listeners(ctx, client, note)[note]
	asked := fmt.Sprintf("%s: asked %s", cli.Safe(name), cli.Plural(int64(holders), "holder"))
	switch {
	case holders == 0:
		return cli.Nof("%s: nobody holds it", cli.Safe(name))
	case known && listening == 0:
		return cli.Nof("%s, but nobody listens for that", asked)
	case known:
		_, err = fmt.Printf("%s; clients that listen for that: %d\n", asked, listening)
	default:
		_, err = fmt.Printf("%s; the server does not say whether anybody listens\n", asked)
	}
	return cli.Exit(cli.ExitNo, err)
}

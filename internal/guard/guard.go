// Package guard runs commands and scripts of users that the server executes only if a hold's wire owner has the lock
// there, in the same step.
package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/core"
	"github.com/holdfast-go/holdfast/internal/kind"
	"github.com/holdfast-go/holdfast/internal/script"
	"github.com/holdfast-go/holdfast/internal/session"
	"github.com/holdfast-go/holdfast/internal/wire"
)

const operation = "guard"

var (
	errSeveral = errors.New("its locks may be on several servers, and no command is executed on all of them in one step")
	errShared  = errors.New("others hold this half as well, so it guards nothing; take the write half")
	errFlags   = errors.New(`the script begins with "#!", so it cannot be put into another one`)
	errForeign = errors.New("it was not built by the client of a cluster")
)

// commandsScript runs commands.
var commandsScript = script.Load("guard_commands")

// mostWords is how many words a command may have. Lua can hand on about twice as many.
const mostWords = 4000

// Commands runs commands one after the other, up to the first one that fails. It returns the replies of those that did
// not.
func Commands(
	ctx context.Context, of session.Holding, commands []rueidis.Completed,
) (replies []rueidis.RedisMessage, err error) {
	g, err := guardedBy(of)
	if err != nil {
		return nil, err
	}
	var keys, args []string
	for i := range commands {
		words := commands[i].Commands()
		if keys, err = g.keysOf(keys, &commands[i]); err != nil {
			return nil, g.fail(fmt.Errorf("%s: %w", nameOf(i, words), err))
		}
		args = append(append(args, strconv.Itoa(len(words))), words...)
	}
	replies, err = g.run(ctx, commandsScript, keys, args)
	last := len(replies) - 1
	if err != nil || last < 0 {
		return replies, err
	}
	if err := g.refused(ctx, &replies[last]); err != nil {
		return replies[:last], g.fail(fmt.Errorf("%s: %w", nameOf(last, commands[last].Commands()), err))
	}
	return replies, nil
}

// nameOf is a command as errors call it.
func nameOf(i int, words []string) string { return fmt.Sprintf("command %d, %.40s", i+1, words[0]) }

// Script runs a script.
func Script(
	ctx context.Context, of session.Holding, source string, keys, args []string,
) (reply rueidis.RedisMessage, err error) {
	g, err := guardedBy(of)
	if err != nil {
		return reply, err
	}
	if strings.HasPrefix(source, "#!") {
		return reply, g.fail(errFlags)
	}
	if g.cluster {
		for _, key := range keys {
			if err := wire.CheckBeside(key, g.proof.Key); err != nil {
				return reply, g.fail(err)
			}
		}
	}
	replies, err := g.run(ctx, known.of(source), keys, args)
	if err != nil {
		return reply, err
	}
	if err := g.refused(ctx, &replies[0]); err != nil {
		return reply, g.fail(err)
	}
	return replies[0], nil
}

// A guarded hold is one by which the server sees whether to execute something.
type guarded struct {
	hold    *core.Single
	proof   kind.Proof
	cluster bool
}

func guardedBy(of session.Holding) (*guarded, error) {
	hold, ok := of.(*core.Single)
	if !ok {
		return nil, of.Label().Fail(operation, errSeveral)
	}
	g := &guarded{hold: hold, cluster: of.Session().Config().Client.Mode() == rueidis.ClientModeCluster}
	guarder, ok := hold.Of().Protocol().(kind.Guarder)
	if !ok {
		return nil, g.fail(errShared)
	}
	g.proof = guarder.Proof(hold.Wire())
	return g, nil
}

func (g *guarded) fail(err error) error { return g.hold.Label().Fail(operation, err) }

// keysOf appends to keys those of a command, in a cluster. A command tells the slot of its keys, and not which of its
// words they are: a word in that slot that is no key does no harm among them.
func (g *guarded) keysOf(keys []string, command *rueidis.Completed) ([]string, error) {
	words := command.Commands()
	if len(words) > mostWords {
		return nil, fmt.Errorf("it has %d words, the limit is %d", len(words), mostWords)
	}
	const single = 1 << 15 // as the client marks them
	slot := command.Slot() // none, if there are no keys
	switch {
	case !g.cluster:
		return keys, nil
	case slot&single != 0:
		return nil, errForeign
	}
	for _, word := range words[1:] {
		if wire.Slot(word) != slot {
			continue
		}
		if err := wire.CheckBeside(word, g.proof.Key); err != nil {
			return nil, err
		}
		keys = append(keys, word)
	}
	return keys, nil
}

// run runs a script with the arguments and replies of guard_commands, and returns what is in the reply.
func (g *guarded) run(
	ctx context.Context, s *script.Script, keys, args []string,
) (replies []rueidis.RedisMessage, err error) {
	of := g.hold.Session()
	if err := g.hold.Err(); err != nil {
		return nil, g.fail(err)
	}
	if !of.Enter() {
		return nil, g.fail(session.ErrClosed)
	}
	defer of.Leave()
	told, err := guarding(ctx, g.hold)
	if err != nil {
		return nil, g.fail(err)
	}
	call := script.NewCall(s).Key(g.proof.Key).Key(keys...).Arg(g.proof.As, g.proof.Owner).Arg(args...)
	defer call.Free()
	if err = of.Runner().Run(ctx, script.Return, call); err == nil {
		replies, err = call.ReadArray()
	}
	if err != nil && call.Denies() {
		told(true, false)
		return nil, g.fail(g.hold.Err())
	}
	told(!script.InDoubt(err), true)
	if err != nil {
		return nil, g.fail(of.Ended(session.Explain(ctx, err)))
	}
	return replies, nil
}

// guarding is Guarding of the hold, as soon as that is not early any more.
func guarding(ctx context.Context, h *core.Single) (told func(known, holds bool), err error) {
	for {
		told, early, err := h.Guarding()
		if early <= 0 {
			return told, err
		}
		if session.Pause(h.Context(ctx), early) != nil {
			if err := cmp.Or(h.Err(), session.Stopped(ctx)); err != nil {
				return nil, err
			}
		}
	}
}

// Settle waits until calls may be sent that the server executes only if it has the hold.
func Settle(ctx context.Context, h *core.Single) error {
	told, err := guarding(ctx, h)
	if err == nil {
		told(true, true)
	}
	return err
}

// refused is the error that is a reply of a command or of a user's script, nil if it is none.
func (g *guarded) refused(ctx context.Context, reply *rueidis.RedisMessage) error {
	answer, ok := rueidis.IsRedisErr(reply.Error())
	if !ok {
		return nil
	}
	g.hold.Session().Runner().Heard(ctx, g.proof.Key, answer.Error())
	return answer
}

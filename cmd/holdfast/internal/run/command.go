//go:build linux || darwin || freebsd || openbsd || dragonfly

// Package run has the commands "run" and "lead": they hold a lock while a command runs, and make sure that the command
// does not outlive the lock.
package run

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/internal/wire"
)

const (
	onLossStop = "stop"
	onLossKeep = "keep"
)

// leads is the command whose lock is that of an election.
const leads = "lead"

// shortest is the shortest lease that is fixed.
const shortest = 10 * time.Millisecond

// settings are the flags and arguments of a run.
type settings struct {
	verb                            string // "run", or leads
	shared, exclusive, fair, fenced bool
	permits                         int
	limit                           cli.Seconds
	conflict                        int
	shell                           string
	nonblock, noFork, takeOver      bool
	lease, grace, atLeast           time.Duration
	onLoss                          string
	verbose, json, guard            bool

	name string
	path string // of the program
	argv []string

	began    time.Time      // with the lock
	left     *holdfast.Hold // what keeps others out for --at-least
	standing sync.WaitGroup // elections that are not over
}

// Commands are the commands "run" and "lead".
func Commands(redis *cli.Redis) []*cobra.Command {
	lead := &settings{verb: leads, fenced: true, onLoss: onLossStop}
	return []*cobra.Command{runCommand(redis), lead.command(redis, "Run a command while this process leads")}
}

// command is a command with the flags that both have.
func (s *settings) command(redis *cli.Redis, short string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   s.verb + " [flags] NAME -- COMMAND [ARG]...",
		Short: short,

		DisableFlagsInUseLine: true,

		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if s.guard {
				keepGuard(os.Stdin, os.Stdout)
				return nil
			}
			err := s.check(cmd, args)
			if errors.Is(err, pflag.ErrHelp) {
				return err
			}
			say := newReporter(os.Stderr, s)
			if err == nil {
				err = s.run(redis, say)
			}
			err = say.last(err)
			if errors.Is(err, errInterrupted) {
				endByInterrupt()
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // flags after the name may be the command's
	flags.StringVarP(&s.shell, "command", "c", "", "run this `text` by $SHELL, or /bin/sh")
	cli.SecondsVar(flags, &s.lease, "lease", 30*time.Second, "how long the lock outlives a holdfast that is gone")
	cli.SecondsVar(flags, &s.grace, "grace", 5*time.Second, "from SIGTERM to SIGKILL")
	flags.BoolVar(&s.verbose, "verbose", false, "say what happens, how long it takes, and who holds the lock")
	flags.BoolVar(&s.json, "json", false, "write messages as lines of JSON")
	return cmd
}

func runCommand(redis *cli.Redis) *cobra.Command {
	s := &settings{verb: "run"}
	cmd := s.command(redis, "Hold a lock while a command runs")
	flags := cmd.Flags()
	flags.BoolVarP(&s.shared, "shared", "s", false, "take the read half of the read-write lock NAME")
	flags.BoolVarP(&s.exclusive, "exclusive", "x", false, "take its write half; plain locks are exclusive, too")
	flags.BoolVarP(&s.nonblock, "nonblock", "n", false, "do not wait if somebody else has the lock")
	flags.VarP(&s.limit, "wait", "w", "wait at most this long, such as 1.5 or 90s; 0 is -n")
	flags.IntVarP(&s.conflict, "conflict-exit-code", "E", cli.ExitNo, "exit status if somebody else has the lock")
	flags.BoolVarP(&s.noFork, "no-fork", "F", false, "become the command; needs --lease, for which it has the lock")
	flags.BoolVar(&s.fair, "fair", false, "wait in a queue, first come, first served")
	flags.BoolVar(&s.fenced, "fenced", false, "give the command a fencing token")
	flags.IntVar(&s.permits, "permits", 0, "take one of `N` permits instead of a lock")
	cli.SecondsVar(flags, &s.atLeast, "at-least", 0, "keep others out for this long from now, also after the command")
	flags.BoolVar(&s.takeOver, "take-over", false, "let others in at once if the command fails; with --at-least")
	flags.StringVar(&s.onLoss, "on-loss", onLossStop, "what to do with the command if the lock is lost: stop, or keep")
	flags.BoolVar(&s.guard, "guard", false, "")
	_ = flags.MarkHidden("guard")
	cli.Choose(cmd, "on-loss", []string{onLossStop, onLossKeep})
	return cmd
}

// usagef is the error of a command that was called wrongly.
func (s *settings) usagef(format string, args ...any) error {
	return cli.Usagef(s.verb+": "+format, args...)
}

// check validates the arguments and finds the program.
func (s *settings) check(cmd *cobra.Command, args []string) (err error) {
	if s.argv, err = s.split(cmd, args); err != nil {
		return err
	}
	byShell := cmd.Flags().Changed("command")
	switch {
	case byShell && len(s.argv) > 0:
		return s.usagef("give either -c or a command, not both")
	case !byShell && len(s.argv) == 0:
		return s.usagef("want a command: holdfast %s %s -- COMMAND", s.verb, s.name)
	}
	if err := s.checkFlags(cmd); err != nil {
		return err
	}
	if byShell {
		s.argv = []string{cmp.Or(os.Getenv("SHELL"), "/bin/sh"), "-c", s.shell}
	}
	if s.path, err = exec.LookPath(s.argv[0]); err != nil {
		return cli.Exit(cli.ExitUnavailable, fmt.Errorf("%s: %w", s.verb, err))
	}
	return nil
}

// split reads the name and the flags that follow it, and returns the command, which follows --.
func (s *settings) split(cmd *cobra.Command, args []string) (command []string, err error) {
	if len(args) == 0 {
		return nil, s.usagef("want the NAME of a lock")
	}
	s.name = args[0]
	behind := args[1:]
	flags := cmd.Flags()
	dashed := flags.ArgsLenAtDash() == 0 // the name itself follows --
	if err := flags.Parse(behind); err != nil {
		return nil, s.usagef("%w; write -- before the command", err)
	}
	command = flags.Args()
	first := len(behind) - len(command)
	switch help, _ := flags.GetBool("help"); {
	case help:
		return nil, pflag.ErrHelp
	case len(command) == 0 || first > 0 && behind[first-1] == "--":
		return command, nil
	case dashed:
		return nil, s.usagef("want the NAME of a lock before --; before one with a dash write another --")
	}
	return nil, s.usagef("%q follows the name; write -- before the command", command[0])
}

func (s *settings) checkFlags(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	switch {
	case wire.CheckName(s.name) != nil:
		return s.usagef("%w", wire.CheckName(s.name))
	case changed("permits") && (s.permits < 1 || s.permits > wire.MaxCount):
		return s.usagef("--permits is %d, must be from 1 to 2^53 - 1", s.permits)
	case strings.Count(fmt.Sprint(s.shared, s.exclusive, s.fair, s.fenced && !s.fair, s.permits > 0), "true") > 1:
		return s.usagef("-s, -x, --fair, --fenced and --permits exclude each other, except --fair and --fenced")
	case s.atLeast > 0 && (s.permits > 0 || s.noFork):
		return s.usagef("--at-least is for a lock, and not for -F, which has --lease")
	case changed("at-least") && s.atLeast < shortest:
		return s.usagef("--at-least is %v, must be at least %v", s.atLeast, shortest)
	case s.takeOver && s.atLeast == 0:
		return s.usagef("--take-over is for --at-least, which says how long to keep others out")
	case s.nonblock && changed("wait") && s.limit > 0:
		return s.usagef("-n and -w exclude each other")
	case s.conflict < 0 || s.conflict > 255:
		return s.usagef("-E is %d, must be from 0 to 255", s.conflict)
	case s.noFork && !changed("lease"):
		return s.usagef("-F needs --lease: nobody renews the lock while the command runs")
	case s.noFork && s.lease < shortest:
		return s.usagef("--lease is %v, must be at least %v", s.lease, shortest)
	case !s.noFork && s.lease < time.Second:
		return s.usagef("--lease is %v, must be at least 1s for a lock that is renewed", s.lease)
	}
	s.nonblock = s.nonblock || changed("wait") && s.limit == 0
	return nil
}

// label tells people which run this is. It leaves the arguments out, which may be secret.
func (s *settings) label() string {
	text := "holdfast " + s.verb + ": " + filepath.Base(s.argv[0])
	if s.shell != "" {
		text += " -c"
	}
	const most = 256
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

//go:build linux || darwin || freebsd || openbsd || dragonfly

// Package run is the command "run": it holds a lock while a command runs, and sees to it that the
// command does not outlive the lock.
package run

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

const long = `Takes a lock, runs a command, and gives the lock back. The letters are those of
flock(1) and mean the same. The lock is renewed for as long as the command runs.

The exit status is the command's; 128 and the number of the signal that killed
it; 1, or what -E says, if somebody else had the lock; 79 if the lock was lost
while the command ran. See "holdfast help exit-codes" for the others.

If the lock is lost, or cannot be renewed in time, the command and everything in
its process group get SIGTERM, and after --grace SIGKILL. Where a lease runs out
they are gone before it does. Signals are passed on to the command. What it
leaves running in its process group when it ends is ended likewise.

Without -s and -x it is the lock that Redisson calls getLock(NAME), with --fair
getFairLock(NAME), with --fenced getFencedLock(NAME); -s and -x are the halves of
getReadWriteLock(NAME), and --permits is getPermitExpirableSemaphore(NAME). All
but the last exclude each other on one name, but only those that are of the same
kind wake each other at once; others notice within 6 s.

The command finds HOLDFAST_NAME, HOLDFAST_OWNER, HOLDFAST_TOKEN with --fenced,
and HOLDFAST_DEADLINE: until when the lock was its own when it was started. A
holdfast run of the same name inside the command runs at once, under this hold.

What follows the name are flags until --, which stands before the command. A name
that begins with a dash stands behind a -- of its own: -- -NAME -- COMMAND.

-F replaces holdfast by the command. Nobody renews the lock then, and nobody
gives it back: it needs --lease, and the lock is taken until that is over. If the
command cannot be started it is given back.`

const examples = `  holdfast run backup -- ./backup.sh           # waits for the lock
  holdfast run -n nightly -- ./report          # not if somebody else has it
  holdfast run -w 1.5 -E 75 job -c 'a && b'    # waits 1.5 s, then exits with 75
  holdfast run -s catalog -- ./export          # as a reader, beside others
  holdfast run --permits 4 fetch -- ./fetch    # at most four at a time
  holdfast run -nF --lease 1h job -- ./hourly  # not again within the hour`

const (
	onLossStop = "stop"
	onLossKeep = "keep"
)

// settings are what was asked for.
type settings struct {
	shared, exclusive, fair, fenced bool
	permits                         int
	nonblock                        bool
	limit                           cli.Seconds
	conflict                        int
	shell                           string
	noFork                          bool
	lease                           time.Duration
	grace                           time.Duration
	onLoss                          string
	verbose, json                   bool
	guard                           bool

	name string
	path string // of the program
	argv []string
}

// Command is the command "run".
func Command(redis *cli.Redis) *cobra.Command {
	var s settings
	cmd := &cobra.Command{
		Use:   "run [flags] NAME -- COMMAND [ARG]...",
		Short: "Hold a lock while a command runs",

		DisableFlagsInUseLine: true,

		Long:    long,
		Example: examples,
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
			say := newReporter(os.Stderr, &s)
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
	flags.SetInterspersed(false) // what follows the name may be the command's
	flags.BoolVarP(&s.shared, "shared", "s", false, "take the read half of the read-write lock NAME")
	flags.BoolVarP(&s.exclusive, "exclusive", "x", false, "take its write half; without -s and -x the lock is exclusive, too")
	flags.BoolVarP(&s.nonblock, "nonblock", "n", false, "do not wait if somebody else has the lock")
	flags.VarP(&s.limit, "wait", "w", "wait so long at the most, as in 1.5 or 90s; 0 is -n")
	flags.IntVarP(&s.conflict, "conflict-exit-code", "E", cli.ExitNo, "exit status if somebody else has the lock")
	flags.StringVarP(&s.shell, "command", "c", "", "run this `text` by $SHELL, or /bin/sh")
	flags.BoolVarP(&s.noFork, "no-fork", "F", false, "become the command; needs --lease, until whose end the lock stays taken")
	flags.BoolVar(&s.fair, "fair", false, "wait in a queue, first come, first served")
	flags.BoolVar(&s.fenced, "fenced", false, "give the command a fencing token")
	flags.IntVar(&s.permits, "permits", 0, "take one of `N` permits instead of a lock")
	cli.SecondsVar(flags, &s.lease, "lease", 30*time.Second, "how long the lock outlives a holdfast that is gone")
	cli.SecondsVar(flags, &s.grace, "grace", 5*time.Second, "from SIGTERM to SIGKILL")
	flags.StringVar(&s.onLoss, "on-loss", onLossStop, "what to do with the command if the lock is lost: stop, or keep")
	flags.BoolVar(&s.verbose, "verbose", false, "say what is done, how long it took, and who is in the way")
	flags.BoolVar(&s.json, "json", false, "say it in lines of JSON")
	flags.BoolVar(&s.guard, "guard", false, "")
	_ = flags.MarkHidden("guard")
	_ = cmd.RegisterFlagCompletionFunc("on-loss", cobra.FixedCompletions([]cobra.Completion{onLossStop, onLossKeep}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// check refuses what makes no sense, and finds the program.
func (s *settings) check(cmd *cobra.Command, args []string) error {
	var err error
	if s.argv, err = s.split(cmd, args); err != nil {
		return err
	}
	byShell := cmd.Flags().Changed("command")
	switch {
	case byShell && len(s.argv) > 0:
		return cli.Usagef("run: there is -c and a command; want one of them")
	case !byShell && len(s.argv) == 0:
		return cli.Usagef("run: want a command: holdfast run %s -- COMMAND", s.name)
	}
	if err := s.checkFlags(cmd); err != nil {
		return err
	}
	if byShell {
		shell := os.Getenv("SHELL")
		if shell == "" {
			shell = "/bin/sh"
		}
		s.argv = []string{shell, "-c", s.shell}
	}
	path, err := exec.LookPath(s.argv[0])
	if err != nil {
		return cli.Exit(cli.ExitUnavailable, fmt.Errorf("run: %w", err))
	}
	s.path = path
	return nil
}

// split takes the name off the arguments, and the flags behind it, and returns the command, which stands behind --.
func (s *settings) split(cmd *cobra.Command, args []string) (command []string, err error) {
	if len(args) == 0 {
		return nil, cli.Usagef("run: want the NAME of a lock")
	}
	s.name = args[0]
	behind := args[1:]
	flags := cmd.Flags()
	dashed := flags.ArgsLenAtDash() == 0 // the name itself stands behind --
	if err := flags.Parse(behind); err != nil {
		return nil, cli.Usagef("run: %w; write -- before the command", err)
	}
	command = flags.Args()
	first := len(behind) - len(command)
	switch help, _ := flags.GetBool("help"); {
	case help:
		return nil, pflag.ErrHelp
	case len(command) == 0 || first > 0 && behind[first-1] == "--":
		return command, nil
	case dashed:
		return nil, cli.Usagef("run: want the NAME of a lock before --; one that begins with a dash is written -- NAME -- COMMAND")
	}
	return nil, cli.Usagef("run: %q follows the name; write -- before the command", command[0])
}

func (s *settings) checkFlags(cmd *cobra.Command) error {
	changed := cmd.Flags().Changed
	switch {
	case s.name == "":
		return cli.Usagef("run: the name is empty")
	case len(s.name) > 64<<10:
		return cli.Usagef("run: the name is longer than 64 KiB")
	case s.shared && s.exclusive:
		return cli.Usagef("run: -s and -x exclude each other")
	case s.fair && (s.shared || s.exclusive), s.fenced && (s.shared || s.exclusive || s.fair):
		return cli.Usagef("run: --fair, --fenced, -s and -x are different locks; want one of them")
	case changed("permits") && s.permits < 1:
		return cli.Usagef("run: --permits is %d, must be at least 1", s.permits)
	case s.permits > 0 && (s.shared || s.exclusive || s.fair || s.fenced):
		return cli.Usagef("run: with --permits there is no lock for -s, -x, --fair and --fenced")
	case s.nonblock && changed("wait") && s.limit > 0:
		return cli.Usagef("run: -n and -w exclude each other")
	case s.conflict < 0 || s.conflict > 255:
		return cli.Usagef("run: -E is %d, must be from 0 to 255", s.conflict)
	case s.noFork && !changed("lease"):
		return cli.Usagef("run: -F needs --lease: nobody renews the lock while the command runs")
	case s.noFork && s.lease < 10*time.Millisecond:
		return cli.Usagef("run: --lease is %v, must be at least 10ms", s.lease)
	case !s.noFork && s.lease < time.Second:
		return cli.Usagef("run: --lease is %v, must be at least 1s for a lock that is renewed", s.lease)
	case s.onLoss != onLossStop && s.onLoss != onLossKeep:
		return cli.Usagef("run: --on-loss is %q, must be stop or keep", s.onLoss)
	}
	if changed("wait") && s.limit == 0 {
		s.nonblock = true
	}
	return nil
}

// label is how a person knows this run from others. Arguments are left out: they may be secret.
func (s *settings) label() string {
	text := "holdfast run: " + filepath.Base(s.argv[0])
	if s.shell != "" {
		text += " -c"
	}
	const most = 256
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

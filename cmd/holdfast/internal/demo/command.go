package demo

import (
	"fmt"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/redis/rueidis"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
)

const redisFlag = "redis"

const long = `Runs several worker processes that share a lock, or a pool of permits, does to
them what production does, and checks that it held. It needs nothing: it brings
its own server, unless --redis names a real one; the scene redlock always brings
five, since it kills them. On a terminal it draws a picture as it goes.

Scenes:
%s
Every goroutine runs this loop, here beside its Java; in the scene fair the lock
is redisson.getFairLock("counter") and fairlock.New(session, "counter", nil). In
the scene rw it is redisson.getReadWriteLock("document") and rwlock.New; readers
hold its readLock(), which is Read(), and writers its writeLock(), Write(). In
the scene redlock it is redisson.getRedLock and multilock.NewRedLock, with one
such lock on each server. For the scene pool see below.

  RLock lock =                            lock := rlock.New(
      redisson.getLock("counter");            session, "counter", nil)

  lock.lock();                            hold, err := lock.Lock(ctx)
  try {                                   if err != nil { return err }
                                          defer hold.Release()
                                          ctx = hold.Context(ctx)
      int n = read();                     n, err := read()
      save(n + 1); // takes it again      return save(ctx, n+1) // likewise
  } finally {
      lock.unlock();
  }

In the scene pool every job needs a permit, and counts down a latch when it is
done. In Java the permit needs a lease longer than the job; in Go it is renewed.

  RPermitExpirableSemaphore permits =     permits := semaphore.NewExpirable(
    redisson.getPermitExpirableSemaphore      session, "pool", nil)
      ("pool");
  RCountDownLatch done =                  done := latch.New(
      redisson.getCountDownLatch("done");     session, "done")

  String permit =                         hold, err := permits.Acquire(ctx)
      permits.acquire(60, SECONDS);       if err != nil { return err }
  try {                                   defer hold.Release()
      run(job);                           err = run(hold.Context(ctx), job)
  } finally {                             if err != nil { return err }
      permits.release(permit);
  }
  done.countDown();                       return done.CountDown(ctx)

The exit status is 0 only if everything held.`

// Command is the command "demo".
func Command() *cobra.Command {
	var redis string
	var names []cobra.Completion
	var list strings.Builder
	for _, s := range scenes() {
		names = append(names, cobra.CompletionWithDesc(s.name, s.short))
		fmt.Fprintf(&list, "  %-8s %s\n", s.name, s.short)
	}
	cmd := &cobra.Command{
		Use:   "demo [SCENE]",
		Short: "Show locks at work while holders are killed and servers die",
		Long:  fmt.Sprintf(long, list.String()),
		Example: `  holdfast demo                                     all scenes
  holdfast demo lock                                one of them
  holdfast demo --redis redis://localhost:6379      on a real server
  HOLDFAST_REDIS_PASSWORD=secret holdfast demo --redis redis://user@db:6379/2`,
		Args:      oneScene,
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			server, err := withSecret(redis)
			if err != nil {
				return err
			}
			chosen := scenes()
			if len(args) == 1 {
				chosen = []scene{sceneOf(args[0])}
			}
			ctx, release := cli.UntilSignal(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			defer release()
			// A reader who has gone, as in "demo | head", is a failed write and not a sudden end.
			signal.Ignore(syscall.SIGPIPE)
			err = run(ctx, os.Stdout, server, chosen)
			if stopped := cli.Stopped(ctx); stopped != nil && err != nil {
				return cli.Exit(stopped.Code, fmt.Errorf("demo: %w", stopped))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&redis, redisFlag, "", "`URL` of a server to use instead of the embedded one, but in redlock")
	cmd.AddCommand(workerCommand())
	return cmd
}

// oneScene refuses arguments that are not the name of one scene, on servers that it can be played on.
func oneScene(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("demo shows one scene or all of them, not %d", len(args))
	case len(args) == 1 && sceneOf(args[0]).play == nil:
		return fmt.Errorf("demo has no scene %q", args[0])
	case len(args) == 1 && sceneOf(args[0]).servers > 0 && cmd.Flags().Changed(redisFlag):
		return fmt.Errorf("the scene %s kills servers, so it brings its own; --%s is for the others", args[0], redisFlag)
	}
	return nil
}

// workerCommand is what the demo starts its processes as.
func workerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "worker",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// Ctrl-C reaches every process of the terminal, but it is the coordinator that ends the workers.
			signal.Ignore(os.Interrupt)
			return work(cmd.Context(), os.Stdin, os.Stdout)
		},
	}
}

// withSecret is the URL of a server as the workers are told it, by a pipe: with the password, which is none
// for a command line.
func withSecret(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	if err := cli.Public(text); err != nil {
		return "", err
	}
	if _, err := rueidis.ParseURL(text); err != nil {
		return "", cli.Usagef("--%s: %w; want redis://[user@]host[:port][/database], rediss:// or unix://", redisFlag, err)
	}
	password := os.Getenv(cli.EnvPassword)
	if password == "" {
		return text, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", cli.Usagef("--%s: %w", redisFlag, err)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	return u.String(), nil
}

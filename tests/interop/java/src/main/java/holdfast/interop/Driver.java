package holdfast.interop;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import org.redisson.Redisson;
import org.redisson.client.RedisException;

/**
 * Drives Redisson by requests on stdin, one per line, and answers each with one line on stdout, in any order:
 *
 * <pre>
 * request   id actor verb argument…
 * answer    id ok  millis micros value
 *           id err millis micros class message
 *
 * verbs     connect client setting=value…        → the client's uuid
 *           thread                               → the id of the actor's thread
 *           call client kind name method arg…    → the method's result
 *           turns client kind name patience warm-up length work
 *                                                → how often it had the lock, and the longest wait in micros
 *           interrupt actor
 *           asleep actor                         → whether it sleeps until a message wakes it
 *           redisson                             → the name of the library's file
 *           clock                                → System.nanoTime()
 *           shutdown client
 *           exit
 * </pre>
 *
 * Every request runs on the thread of its actor, in order; actors run beside each other, so that several may wait for
 * locks at once. Arguments and results are URL-encoded. "millis" is System.currentTimeMillis() when the call had ended
 * (for a lock call, the moment of the grant), "micros" how long it took. At the end of stdin the program halts.
 */
public final class Driver {

    private final Clients clients = new Clients();
    private final Map<String, Actor> actors = new ConcurrentHashMap<>();
    private final PrintStream out;

    private Driver(PrintStream out) {
        this.out = out;
    }

    public static void main(String[] args) throws IOException {
        Driver driver = new Driver(new PrintStream(System.out, true, StandardCharsets.UTF_8));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            driver.accept(line);
        }
        exit(); // whoever started us has gone
    }

    private void accept(String line) {
        String[] words = line.split(" ", -1);
        String id = words[0];
        String verb = words[2];
        List<String> args = new ArrayList<>();
        for (int i = 3; i < words.length; i++) {
            args.add(URLDecoder.decode(words[i], StandardCharsets.UTF_8));
        }
        actor(words[1]).execute(() -> answer(id, verb, args));
    }

    private Actor actor(String name) {
        return actors.computeIfAbsent(name, Actor::start);
    }

    private void answer(String id, String verb, List<String> args) {
        long start = System.nanoTime();
        String outcome;
        String words;
        try {
            Object value = run(verb, args);
            outcome = "ok";
            words = encode(value);
        } catch (Throwable e) { // anything at all must be answered, or the caller would wait for ever
            Throwable cause = unwrap(e);
            outcome = "err";
            words = cause.getClass().getSimpleName() + " " + encode(cause.getMessage());
        }
        long millis = System.currentTimeMillis();
        long micros = (System.nanoTime() - start) / 1000;
        out.println(id + " " + outcome + " " + millis + " " + micros + " " + words);
    }

    /** What was thrown, out of what reflection and Redisson wrap around it. */
    private static Throwable unwrap(Throwable e) {
        boolean wrapping = e instanceof InvocationTargetException || e.getClass() == RedisException.class;
        return wrapping && e.getCause() != null ? unwrap(e.getCause()) : e;
    }

    private Object run(String verb, List<String> args) throws Exception {
        switch (verb) {
            case "connect":
                return clients.connect(args.get(0), settings(args.subList(1, args.size())));
            case "thread":
                return Thread.currentThread().getId();
            case "call":
                return clients.call(args.get(0), args.get(1), args.get(2), args.get(3), args.subList(4, args.size()));
            case "turns":
                return clients.turns(args.get(0), args.get(1), args.get(2), args.subList(3, args.size()));
            case "interrupt":
                actor(args.get(0)).interrupt();
                return null;
            case "asleep":
                return actor(args.get(0)).asleep();
            case "redisson":
                return Path.of(Redisson.class.getProtectionDomain().getCodeSource().getLocation().toURI()).getFileName();
            case "clock":
                return System.nanoTime();
            case "shutdown":
                clients.shutdown(args.get(0));
                return null;
            case "exit":
                exit();
                return null;
            default:
                throw new IllegalArgumentException("no such verb: " + verb);
        }
    }

    private static Map<String, String> settings(List<String> words) {
        return words.stream().map(w -> w.split("=", 2)).collect(Collectors.toMap(w -> w[0], w -> w[1]));
    }

    /** Ends the process at once, as no shutdown hook may hold up the tests. */
    private static void exit() {
        Runtime.getRuntime().halt(0);
    }

    private static String encode(Object value) {
        return URLEncoder.encode(String.valueOf(value), StandardCharsets.UTF_8);
    }
}

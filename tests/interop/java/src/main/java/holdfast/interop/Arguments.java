package holdfast.interop;

import java.time.Duration;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.function.Function;

/** Turns the words of a request into the arguments of a Redisson method. */
final class Arguments {

    private Arguments() { }

    /**
     * The arguments for parameters of these types, or null if the words do not fit them. A time is written
     * {@code 1500ms}, and fits a Duration, or a long of a method that takes a TimeUnit, which is not written
     * itself. A list is written {@code [one, two]}, and is no String. Of a function its only result is written.
     */
    static Object[] fit(Class<?>[] types, List<String> words) {
        boolean timed = Arrays.asList(types).contains(TimeUnit.class);
        Iterator<String> rest = words.iterator();
        Object[] values = new Object[types.length];
        for (int i = 0; i < types.length; i++) {
            if (types[i] == TimeUnit.class) {
                values[i] = TimeUnit.MILLISECONDS;
            } else if (rest.hasNext()) {
                values[i] = fit(types[i], rest.next(), timed);
            }
            if (values[i] == null) {
                return null;
            }
        }
        return rest.hasNext() ? null : values;
    }

    private static Object fit(Class<?> type, String word, boolean timed) {
        if (type == long.class && timed && word.matches("-?\\d+ms")) {
            return Long.valueOf(word.substring(0, word.length() - 2));
        }
        if (type == Duration.class && word.matches("-?\\d+ms")) {
            return Duration.ofMillis(Long.parseLong(word.substring(0, word.length() - 2)));
        }
        if (type == long.class && !timed && word.matches("-?\\d+")) {
            return Long.valueOf(word);
        }
        if (type == int.class && word.matches("-?\\d+")) {
            return Integer.valueOf(word);
        }
        boolean list = word.startsWith("[") && word.endsWith("]");
        if (type == List.class && list) {
            return List.of(word.substring(1, word.length() - 1).split(", "));
        }
        if (type == Function.class) {
            return (Function<Object, Object>) x -> word;
        }
        if (type == BiFunction.class) {
            return (BiFunction<Object, Object, Object>) (x, y) -> word;
        }
        return (type == String.class || type == Object.class) && !list ? word : null;
    }
}

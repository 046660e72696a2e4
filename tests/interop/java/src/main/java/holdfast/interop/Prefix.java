package holdfast.interop;

import org.redisson.config.Config;
import org.redisson.config.NameMapper;

/** Puts text in front of every name. It is a class of its own as older releases of Redisson have the interface elsewhere. */
final class Prefix implements NameMapper {

    private final String text;

    private Prefix(String text) {
        this.text = text;
    }

    static void use(Config config, String text) {
        config.setNameMapper(new Prefix(text));
    }

    @Override
    public String map(String name) {
        return text + name;
    }

    @Override
    public String unmap(String name) {
        return name.substring(text.length());
    }
}

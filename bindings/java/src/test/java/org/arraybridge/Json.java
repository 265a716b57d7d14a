package org.arraybridge;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads the JSON of the vectors: what is there, no more. Numbers without a point are longs. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    static Object read(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.space();
        if (json.at != text.length()) {
            throw new IllegalArgumentException("text after the value at " + json.at);
        }
        return value;
    }

    private void space() {
        while (at < text.length() && Character.isWhitespace(text.charAt(at))) {
            at++;
        }
    }

    private boolean next(char wanted) {
        space();
        boolean is = at < text.length() && text.charAt(at) == wanted;
        if (is) {
            at++;
        }
        return is;
    }

    private void must(char wanted) {
        if (!next(wanted)) {
            throw new IllegalArgumentException("no " + wanted + " at " + at);
        }
    }

    private Object value() {
        space();
        switch (text.charAt(at)) {
            case '{':
                return object();
            case '[':
                return array();
            case '"':
                return string();
            default:
                return word();
        }
    }

    private Map<String, Object> object() {
        Map<String, Object> object = new LinkedHashMap<>();
        must('{');
        if (!next('}')) {
            do {
                space();
                String name = string();
                must(':');
                object.put(name, value());
            } while (next(','));
            must('}');
        }
        return object;
    }

    private List<Object> array() {
        List<Object> array = new ArrayList<>();
        must('[');
        if (!next(']')) {
            do {
                array.add(value());
            } while (next(','));
            must(']');
        }
        return array;
    }

    private String string() {
        StringBuilder string = new StringBuilder();
        must('"');
        while (text.charAt(at) != '"') {
            char c = text.charAt(at++);
            if (c == '\\') {
                c = text.charAt(at++);
                switch (c) {
                    case 'n' -> c = '\n';
                    case 't' -> c = '\t';
                    case 'r' -> c = '\r';
                    case 'b' -> c = '\b';
                    case 'f' -> c = '\f';
                    case 'u' -> {
                        c = (char) Integer.parseInt(text.substring(at, at + 4), 16);
                        at += 4;
                    }
                    default -> {}
                }
            }
            string.append(c);
        }
        at++;
        return string.toString();
    }

    private Object word() {
        int start = at;
        while (at < text.length() && ",]} \n\r\t".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(start, at);
        return switch (word) {
            case "true" -> true;
            case "false" -> false;
            case "null" -> null;
            default -> Long.valueOf(word);
        };
    }
}

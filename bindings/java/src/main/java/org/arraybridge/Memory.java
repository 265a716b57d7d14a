package org.arraybridge;

import java.nio.ByteBuffer;
import java.util.function.BooleanSupplier;

/**
 * A managed tensor of the C ABI and what must live as long as it: the Java memory that it shares, and
 * whoever looks at its own. It is deleted once it is closed, no call uses it, and no buffer over its
 * memory can be reached.
 */
final class Memory {
    /** Of all books that are kept here; nothing slow is done under it. */
    private static final Object LOCK = new Object();

    /** Those who look at memory, and the tensor that answers for it now. */
    private static final class Looks {
        int count;
        Memory memory;
    }

    final long pointer;
    final long flags;
    private Object owner;
    private BooleanSupplier alive;
    private String state = "open";
    private boolean held = true;
    private int uses;
    private Looks looks = new Looks();

    /**
     * @param pointer a DLManagedTensorVersioned, which is taken over
     * @param owner what keeps the memory if it is Java's, else null
     * @param alive whether it still does; null: always
     */
    Memory(long pointer, Object owner, BooleanSupplier alive) {
        this.pointer = pointer;
        this.owner = owner;
        this.alive = alive;
        looks.memory = this;
        ByteBuffer struct = Library.get().buffer(pointer, Abi.DLManagedTensorVersioned.BYTES, null);
        flags = struct.getLong(Abi.DLManagedTensorVersioned.FLAGS);
    }

    long tensor() {
        return pointer + Abi.DLManagedTensorVersioned.DL_TENSOR_DATA;
    }

    /** Begins a use, during which the tensor stays. */
    void enter() {
        synchronized (LOCK) {
            mustBeOpen();
            uses++;
        }
    }

    private void mustBeOpen() {
        if (!state.equals("open")) {
            throw new IllegalStateException("the tensor is " + state);
        }
        if (alive != null && !alive.getAsBoolean()) {
            throw new IllegalStateException("the memory that the tensor shares is closed");
        }
    }

    void leave() {
        boolean dead;
        synchronized (LOCK) {
            uses--;
            dead = dead();
        }
        release(dead);
    }

    /** Begins a use that nobody shares, and that may end with the tensor someone else's. */
    void take() {
        synchronized (LOCK) {
            mustBeOpen();
            if (uses > 0) {
                throw new IllegalStateException("the tensor is in use by another thread");
            }
            uses++;
            state = "being taken over";
        }
    }

    /** Ends it: nothing became of it. */
    void keep() {
        boolean dead;
        synchronized (LOCK) {
            state = "open";
            uses--;
            dead = dead();
        }
        release(dead);
    }

    /** Ends it: the tensor is over, and the native one too if it went elsewhere. */
    void taken(String how, boolean gone) {
        boolean dead;
        synchronized (LOCK) {
            state = how;
            if (gone) {
                held = false;
                owner = null;
            }
            uses--;
            dead = dead();
        }
        release(dead);
    }

    void close() {
        boolean dead;
        synchronized (LOCK) {
            if (!state.equals("open")) {
                return;
            }
            state = "closed";
            dead = dead();
        }
        release(dead);
    }

    boolean isOpen() {
        synchronized (LOCK) {
            return state.equals("open");
        }
    }

    /** Decides, once, that the native tensor is to be released. */
    private boolean dead() {
        boolean over = !state.equals("open") && uses == 0 && looks.count == 0;
        boolean dead = over && held;
        if (over) {
            held = false;
        }
        return dead;
    }

    private void release(boolean dead) {
        if (dead) {
            Library.get().call("ab_release", pointer);
            owner = null;
        }
    }

    boolean isJavas() {
        return owner != null;
    }

    boolean isLookedAt() {
        synchronized (LOCK) {
            return looks.count > 0;
        }
    }

    /** Counts one who looks at the memory; to be run when it cannot be reached anymore. */
    Runnable look() {
        Looks looks;
        synchronized (LOCK) {
            looks = this.looks;
            looks.count++;
        }
        return () -> {
            Memory memory;
            boolean dead;
            synchronized (LOCK) {
                looks.count--;
                memory = looks.memory;
                dead = memory.dead();
            }
            memory.release(dead);
        };
    }

    /** Another tensor over the same memory, which answers from now on for those who look at it. */
    Memory successor(long pointer) {
        Memory other = new Memory(pointer, owner, alive);
        synchronized (LOCK) {
            Looks mine = looks;
            looks = other.looks;
            looks.memory = this;
            other.looks = mine;
            mine.memory = other;
        }
        return other;
    }
}

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.arraybridge.ArraybridgeException;
import org.arraybridge.CopyMode;
import org.arraybridge.Dims;
import org.arraybridge.Layout;
import org.arraybridge.Options;
import org.arraybridge.Tensor;

class Start {
    public static void main(String[] arguments) {
        // A picture of height 2 and width 4 with three channels, taken as channels x height x width: no copy.
        ByteBuffer pixels = ByteBuffer.allocateDirect(24);
        for (int index = 0; index < 24; index++) {
            pixels.put(index, (byte) index);
        }
        // [readme]
        try (Tensor picture = Tensor.wrap(pixels, Dims.of(3, 2, 4).strides(1, 12, 3));
                Tensor planes = picture.copy(new Options().dtype("float32").layout(Layout.C))) { // one pass
            float second = planes.buffer().asFloatBuffer().get(1);
            System.out.println(planes.report() + ": " + second);
        }
        // [/readme]

        // Into memory of Java, transposed and cast on the way.
        ByteBuffer mine = ByteBuffer.allocateDirect(24 * 8).order(ByteOrder.nativeOrder());
        Tensor picture = Tensor.wrap(pixels, Dims.of(3, 2, 4).strides(1, 12, 3));
        picture.copyInto(Tensor.wrap(mine.asDoubleBuffer(), Dims.of(3, 2, 4)));
        System.out.println(mine.getDouble(8) + " " + mine.getDouble(16));

        try {
            picture.convert(new Options().dtype("float32").copy(CopyMode.NEVER));
        } catch (ArraybridgeException e) {
            System.out.println(e.status() + ": " + e.getMessage());
        }
        picture.close();
        try {
            picture.detect();
        } catch (IllegalStateException e) {
            System.out.println(e.getMessage());
        }
    }
}

/**
 * Brings any DLPack tensor to the device, dtype and layout that you need: zero copy when possible, else in
 * one pass. {@link org.arraybridge.Tensor} is the way in and out.
 *
 * <p>The shared library is looked for at the first call: at ARRAYBRIDGE_LIBRARY if that is set in the
 * environment, else beside the jar, and where the system looks. An {@link java.lang.UnsatisfiedLinkError}
 * says what was tried. It is called through Java's own foreign functions from 22 on, else through JNA; the
 * system property arraybridge.backend (ffm, jna) names one.
 */
package org.arraybridge;

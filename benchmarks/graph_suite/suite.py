"""The families of the suite's models, by the first part of their file names."""

from __future__ import annotations

FAMILIES = {
    **dict.fromkeys(("vit", "mixer", "detr", "timesformer", "mobilevit", "vae", "restormer"), "attention"),
    **dict.fromkeys(("swin", "swin_small", "winpad", "maxvit", "axial"), "windows"),
    **dict.fromkeys(("bert", "gpt_kv", "gpt_gqa"), "language"),
    **dict.fromkeys(("wav2vec", "conformer", "silero_16k", "silero_ifless", "silero_sequence", "basic_pitch"), "audio"),
    **dict.fromkeys(("nhwc_cnn", "efficientnet_nhwc", "pt_nhwc_cnn_ts", "tfl_face_detection_back_raw"), "nhwc"),
    **dict.fromkeys(
        (
            "convnext", "unet", "yolo", "shufflenet_v1", "shufflenet_v2", "pixelshuffle", "superresolution",
            "densenet", "resnet", "crnn", "pointnet", "pt_pixelshuffle_sr_ts", "pt_shufflenetv2_ts",
            "pt_unet_padcrop_ts",
        ),
        "convolution",
    ),
    **dict.fromkeys(
        (
            "ppocr4_det", "ppocr4_rec", "ppocr6_det", "ppocr6_rec", "ppocr_cls", "nudenet", "dddd_det", "dddd_old",
            "magika",
        ),
        "wheels",
    ),
}  # fmt: skip
